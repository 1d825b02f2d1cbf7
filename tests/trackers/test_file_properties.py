"""Whatever else a file holds, a change of ours leaves it alone."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.trackers.file_edits import Document, NewComment, Transition

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
OURS = {"id", "state", "updated_at", "comments"}
extras = st.dictionaries(text.filter(lambda key: key not in OURS), values, max_size=5)
states = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
layouts = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@st.composite
def files(draw):
    """Records with unknown fields around the known ones, in any order and layout."""
    records = []
    for number in range(draw(st.integers(1, 4))):
        fields = [*draw(extras).items(), ("id", str(number)), ("state", draw(states))]
        if draw(st.booleans()):
            fields.append(("comments", draw(st.lists(extras, max_size=2) | st.none())))
        records.append(dict(draw(st.permutations(fields))))
    return json.dumps(records, indent=draw(layouts), ensure_ascii=draw(st.booleans())).encode(), records


@settings(deadline=None)
@given(files(), st.data())
def test_unknown_fields_and_their_order_survive_every_change(file, data):
    raw, records = file
    document = Document(raw, "issues.json")
    issue_id = data.draw(st.sampled_from(records))["id"]
    state, body = data.draw(states), data.draw(text)
    moved = document.apply(Transition(issue_id, "then", state))
    document.apply(NewComment(issue_id, "now", "sortie-1", body))

    expected = json.loads(raw)
    target = expected[int(issue_id)]
    assert (moved is None) == (target["state"] == state)
    target["state"] = state
    comment = {"id": "sortie-1", "author": "sortie", "body": body, "created_at": "now"}
    if moved is not None:
        target.setdefault("updated_at", "now")
    target["comments"] = [*(target.get("comments") or []), comment]
    target["updated_at"] = "now"

    found = json.loads(document.text())
    # As text, because equality of dictionaries does not see the order of keys.
    assert json.dumps(found) == json.dumps(expected)


@settings(deadline=None)
@given(files())
def test_a_file_without_changes_stays_byte_for_byte(file):
    raw, records = file
    document = Document(raw, "issues.json")
    for record in records:
        document.apply(Transition(record["id"], "then", record["state"]))
    assert document.text() == raw


@settings(deadline=None)
@given(files())
def test_the_same_comment_is_added_once(file):
    raw, _ = file
    document = Document(raw, "issues.json")
    comment = NewComment("0", "now", "sortie-1", "hello")
    assert document.apply(comment) is not None
    once = document.text()
    assert document.apply(comment) is None
    assert document.text() == once
