"""Files of several tasks in one tree: none in the place of another, none lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sortie.plans.flat_layout import FlatLayout
from sortie.protocol.outbox import Delivered


def file(path, content="x"):
    return Delivered(f"outbox/{path}", 1, content)


def test_the_same_path_with_other_content_is_a_conflict_and_nobody_gets_the_place():
    """TBX-15: same path and different hash is listed, and none is overwritten."""
    one, other, alone = file("report.md", "1"), file("report.md", "2"), file("data/a.csv")
    layout = FlatLayout([("a", one), ("b", other), ("b", alone)])
    assert layout.conflicts == (("report.md", ("a", "b")),)
    assert layout.place("a", one) == "_tasks/a/report.md"
    assert layout.place("b", other) == "_tasks/b/report.md"
    assert layout.place("b", alone) == "data/a.csv"


def test_the_same_content_is_no_conflict():
    layout = FlatLayout([("a", file("logo.svg")), ("b", file("logo.svg"))])
    assert layout.conflicts == ()
    assert layout.place("a", file("logo.svg")) == layout.place("b", file("logo.svg")) == "logo.svg"


def test_what_every_task_has_by_the_protocol_stays_with_its_task():
    """BOX-05: summary.md, changelog.md, issues.md and metadata.json are of each task."""
    names = ("summary.md", "changelog.md", "issues.md", "metadata.json", "error_report.md", "partial/x")
    layout = FlatLayout([(task, file(name, task)) for task in "ab" for name in names])
    assert layout.conflicts == ()
    assert {layout.place("a", file(name)) for name in names} == {f"_tasks/a/{name}" for name in names}


def test_a_file_where_another_task_has_a_directory_is_a_conflict():
    layout = FlatLayout([("a", file("data")), ("b", file("data/x"))])
    assert [path for path, _ in layout.conflicts] == ["data", "data/x"]


def test_our_own_names_are_taken():
    layout = FlatLayout([("a", file("manifest.json")), ("a", file("_tasks/x"))])
    assert layout.place("a", file("manifest.json")) == "_tasks/a/manifest.json"
    assert layout.place("a", file("_tasks/x")) == "_tasks/a/_tasks/x"


PATHS = st.lists(
    st.sampled_from(["a", "b", "manifest.json", "summary.md", "_tasks", "partial"]), min_size=1, max_size=3
)


@given(st.dictionaries(st.tuples(st.sampled_from("xyz"), PATHS.map("/".join)), st.sampled_from("12"), max_size=12))
def test_no_place_is_given_to_two_contents_nor_below_a_file(delivered):
    files = [(task, file(path, content)) for (task, path), content in delivered.items()]
    layout = FlatLayout(files)
    places: dict[str, str] = {}
    for task, each in files:
        place = layout.place(task, each)
        assert places.setdefault(place, each.sha256) == each.sha256
        assert place not in ("manifest.json", "summary.md")
    merged = {place for place in places if not place.startswith("_tasks/")}
    assert not any(other.startswith(f"{place}/") for place in merged for other in merged)
