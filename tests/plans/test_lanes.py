"""The lanes beside the tasks of a plan: whoever follows them with a finger finds exactly the edges of the plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sortie.plans.graph import layers
from sortie.plans.lanes import lane_rows

FROM_ABOVE = "├┤┴╰╯┼"
GOES_DOWN = "│├┤┬╭╮┼"


@st.composite
def plans(draw):
    names = [f"t{number}" for number in range(draw(st.integers(1, 12)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:at]), max_size=4)) if at else [] for at, name in enumerate(names)
    }


def read_back(rows):
    """The edges as a reader sees them: what comes from above into a mark, or into the corners right above it."""
    above: dict[int, str] = {}
    joining: set[str] = set()
    edges: dict[str, set[str]] = {}
    for row in rows:
        cells = row.cells.ljust(row.at + 1)
        if row.name:
            assert cells[row.at] == " "
            edges[row.name] = joining or {above[row.at]} if row.at in above else joining
            above = {at: name for at, name in above.items() if at < len(cells) and cells[at] == "│"}
            above[row.at] = row.name
            joining = set()
        else:
            joining = {above[at] for at, sign in enumerate(cells) if sign in FROM_ABOVE}
            above = {at: name for at, name in above.items() if at < len(cells) and cells[at] in GOES_DOWN}
    return edges


@given(plans())
def test_the_lanes_show_every_edge_and_no_other(edges):
    assert read_back(lane_rows(edges)) == {name: set(before) for name, before in edges.items()}


@given(plans())
def test_tasks_come_layer_after_layer(edges):
    named = [row.name for row in lane_rows(edges) if row.name]
    for layer in layers(edges):
        assert sorted(named[: len(layer)]) == layer
        del named[: len(layer)]


def shown(edges):
    """The rows, with an `o` for each mark."""
    rows = lane_rows(edges)
    return [
        (row.cells[: row.at] + "o" + row.cells[row.at + 1 :] if row.name else row.cells).rstrip() for row in rows
    ]


def test_a_chain_takes_one_row_for_each_task():
    assert shown({"a": [], "b": ["a"], "c": ["b"]}) == ["o", "o", "o"]


def test_tasks_that_have_nothing_to_do_with_each_other_do_not_look_like_a_chain():
    assert shown({"a": [], "b": [], "c": ["b"]}) == ["o", "", "o", "o"]


def test_a_fork_and_a_join():
    edges = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    assert shown(edges) == ["o", "├─╮", "│ o", "o │", "├─╯", "o"]


def test_a_lane_that_is_only_crossed_stays_whole():
    edges = {"a": [], "b": [], "c": ["a"], "d": ["a", "b", "c"]}
    assert "├─│─╮" in shown(edges)
