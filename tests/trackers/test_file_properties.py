"""Whatever else a file holds, a change of ours leaves it alone."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sortie.core.model import Issue
from sortie.errors import TrackerError
from sortie.trackers.file_edits import Draft, NewComment, Transition
from sortie.trackers.file_table import Table

from .scene import tracker_on

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


def draft_of(raw):
    return Draft(Table(raw, "issues.json", bool))


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
    draft = draft_of(raw)
    issue_id = data.draw(st.sampled_from(records))["id"]
    state, body = data.draw(states), data.draw(text)
    moved = draft.apply(Transition(issue_id, "then", state))
    draft.apply(NewComment(issue_id, "now", "sortie-1", body))

    expected = json.loads(raw)
    target = expected[int(issue_id)]
    assert (moved is None) == (target["state"] == state)
    target["state"] = state
    comment = {"id": "sortie-1", "author": "sortie", "body": body, "created_at": "now"}
    if moved is not None:
        target.setdefault("updated_at", "now")
    target["comments"] = [*(target.get("comments") or []), comment]
    target["updated_at"] = "now"

    found = json.loads(draft.text())
    # As text, because equality of dictionaries does not see the order of keys.
    assert json.dumps(found) == json.dumps(expected)


@settings(deadline=None)
@given(files())
def test_a_file_without_changes_stays_byte_for_byte(file):
    raw, records = file
    draft = draft_of(raw)
    for record in records:
        draft.apply(Transition(record["id"], "then", record["state"]))
    assert draft.text() == raw


@settings(deadline=None)
@given(files())
def test_the_same_comment_is_added_once(file):
    raw, _ = file
    draft = draft_of(raw)
    comment = NewComment("0", "now", "sortie-1", "hello")
    assert draft.apply(comment) is not None
    once = draft.text()
    assert draft.apply(comment) is None
    assert draft.text() == once


NAMES = ["0", "1", "2"]
STATES = ["Todo", "In Progress", "In Review", "Done"]
ODD = {
    "id": st.sampled_from(NAMES),
    "identifier": st.sampled_from(["T-0", "1"]),
    "state": st.just(3),
    "priority": st.just("high"),
    "comments": st.just("none"),
}
some_fields = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from(["a", "b"]),
        "state": st.sampled_from(STATES),
        "blocked_by": st.just([{"identifier": "T-2", "state": "Written"}]),
        "comments": st.sampled_from([None, [], [{"id": "c", "body": "hi"}]]),
        "updated_at": st.just("then"),
    },
)
odd_fields = st.one_of([st.fixed_dictionaries({key: value}) for key, value in ODD.items()])
# Mostly good records, as a mistake in one record hides what may be wrong with the others.
fields = st.one_of(some_fields, some_fields, some_fields, odd_fields)


blockers = st.lists(st.sampled_from([*NAMES, "T-1", "elsewhere"]), min_size=1, max_size=2)


@st.composite
def versions(draw):
    records = []
    for name in draw(st.permutations(NAMES)):
        record = {"id": name, "identifier": f"T-{name}", "title": "a", "state": "Todo", **draw(some_fields)}
        records.append({**record, "blocked_by": draw(blockers)} if draw(st.booleans()) else record)
    return records + draw(st.sampled_from([[], ["no record"]]))


ours = st.tuples(st.just("move"), st.sampled_from(NAMES), st.sampled_from(STATES)) | st.tuples(
    st.just("say"), st.sampled_from(NAMES), text
)
# Of a record of somebody else's version either some fields are others, or it is gone.
edits = st.tuples(st.just("edit"), st.sampled_from(["rename", "in place"]), st.integers(0, 2), fields | st.none())
steps = st.lists(st.one_of(ours, ours, edits, st.tuples(st.just("look"))), min_size=4, max_size=10)


def edited(raw, position, fields):
    records = json.loads(raw)
    if position < len(records) and isinstance(records[position], dict):
        records[position : position + 1] = [] if fields is None else [{**records[position], **fields}]
    return json.dumps(records, indent=2).encode()


def everything(table):
    """All that is known of a version, the order of the file included."""
    return {
        "issues": list(table.issues.items()),
        "active": table.active,
        "states": table.states,
        "unusable": table.unusable,
        "problems": table.problems,
        "counts": dict(table.counts),
        "text": table.text(),
    }


NAMED_LIKE_ANOTHER = [
    {"id": "0", "identifier": "1", "title": "a", "state": "Todo"},
    {"id": "1", "identifier": "T-1", "title": "a", "state": "Todo"},
    {"id": "2", "identifier": "T-2", "title": "a", "state": "Todo", "blocked_by": ["1"]},
]


@settings(deadline=None, max_examples=400)
@given(versions(), steps)
@example(NAMED_LIKE_ANOTHER, [("move", "0", "Done")])
def test_a_table_that_is_kept_says_what_a_fresh_one_says(first, steps):
    def is_active(state):
        return state in ("Todo", "In Progress")

    table = Table(json.dumps(first, indent=2).encode(), "issues.json", is_active)
    for number, step in enumerate(steps):
        before = Table(table.text(), "issues.json", is_active)
        changed = set()
        match step:
            case ("look",):
                assert table.active == before.active
            case "edit", _, position, fields:
                table = Table(edited(table.text(), position, fields), "issues.json", is_active, table)
                changed = table.differing(before)
            case kind, issue_id, value:
                draft, stamp = Draft(table), f"at {number}"
                change = Transition(issue_id, stamp, value)
                with suppress(TrackerError):
                    draft.apply(change if kind == "move" else NewComment(issue_id, stamp, stamp, value))
                changed = table.update(draft.texts)
        fresh = Table(table.text(), "issues.json", is_active)
        assert everything(table) == everything(fresh)
        assert changed == fresh.differing(before)


@settings(deadline=None, max_examples=40)
@given(versions(), steps)
def test_any_interleaving_of_our_writes_and_edits_of_others_gives_what_a_fresh_tracker_reads(first, steps):
    """Also: what is said to have changed is exactly enough to follow the answers without comparing all."""

    async def play(path):
        path.write_text(json.dumps(first, indent=2))
        tracker = tracker_on(path)
        followed: dict[str, Issue | None] = {}
        former: dict[str, Issue] | None = None
        for step in [*steps, ("look",)]:
            match step:
                case "move", issue_id, state:
                    with suppress(TrackerError):
                        await tracker.transition(issue_id, state)
                case "say", issue_id, body:
                    with suppress(TrackerError):
                        await tracker.comment(issue_id, body)
                case "edit", how, position, fields:
                    target = path.with_name("editor's") if how == "rename" else path
                    target.write_bytes(edited(path.read_bytes(), position, fields))
                    target.replace(path)
                case ("look",):
                    found = await tracker.fetch_candidates()
                    shown = {issue.id: issue for issue in found.issues}
                    assert (found.changed is None) == (former is None)
                    changed = shown.keys() if found.changed is None else found.changed
                    followed = {i: shown[i] if i in changed else followed.get(i) for i in shown}
                    assert followed == shown
                    assert {i for i in former or () if i not in shown} <= changed
                    former = shown
                    fresh = tracker_on(path)
                    assert await fresh.fetch_candidates() == replace(found, changed=None)
                    assert everything(await tracker._file.table()) == everything(await fresh._file.table())
                    assert path.read_bytes() == (await tracker._file.table()).text()

    with TemporaryDirectory() as folder:
        anyio.run(play, Path(folder) / "issues.json")
