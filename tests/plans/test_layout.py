"""Where boxes and lines of a drawn plan are: what holds for every plan, however tangled."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.plans import layout
from sortie.plans.graph import layers
from sortie.plans.layout import HEIGHT, LAYER_GAP, LINE_GAP, ROW_GAP, lay_out


@st.composite
def plans(draw):
    names = [f"t{number}" for number in range(draw(st.integers(0, 14)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:at]), max_size=5)) if at else [] for at, name in enumerate(names)
    }


def placed(edges, width=90.0):
    return lay_out(edges, {name: width + len(edges[name]) for name in edges})


@given(plans())
def test_no_two_boxes_touch_and_all_are_within_the_picture(edges):
    drawn = placed(edges)
    assert sorted(box.name for box in drawn.boxes) == sorted(edges)
    for one, other in combinations(drawn.boxes, 2):
        beside = max(one.x, other.x) - min(one.x + one.width, other.x + other.width)
        below = max(one.y, other.y) - min(one.y + one.height, other.y + other.height)
        assert beside >= LAYER_GAP - 0.01 or below >= ROW_GAP - 0.01, (one, other)
    for box in drawn.boxes:
        assert box.width >= 90.0 + len(edges[box.name])
        assert box.x >= 0
        assert box.y >= -0.01
        assert box.x + box.width <= drawn.width + 0.01
        assert box.y + box.height <= drawn.height + 0.01


@given(plans())
def test_boxes_of_a_layer_stand_below_each_other_and_layers_from_left_to_right(edges):
    lefts = {box.name: box.x for box in placed(edges).boxes}
    columns = [{lefts[name] for name in layer} for layer in layers(edges)]
    assert all(len(column) == 1 for column in columns)
    assert [min(column) for column in columns] == sorted(lefts[layer[0]] for layer in layers(edges))


@given(plans())
def test_each_edge_is_one_line_from_the_right_of_a_box_to_the_left_of_another(edges):
    drawn = placed(edges)
    boxes = {box.name: box for box in drawn.boxes}
    assert sorted((route.before, route.after) for route in drawn.routes) == sorted(
        {(before, name) for name in edges for before in edges[name]}
    )
    for route in drawn.routes:
        before, after = boxes[route.before], boxes[route.after]
        assert route.points[0] == (before.x + before.width, pytest.approx(before.y + HEIGHT / 2))
        assert route.points[-1] == (after.x, pytest.approx(after.y + HEIGHT / 2))
        assert all(one[0] < other[0] for one, other in pairwise(route.points))
        assert all(-0.01 <= y <= drawn.height + 0.01 for _, y in route.points)


@given(plans())
def test_no_line_runs_through_a_box(edges):
    """Between layers a line is free; within one it is level, and keeps its distance from all boxes."""
    drawn = placed(edges)
    for route in drawn.routes:
        for (left, y), (right, end) in pairwise(route.points):
            for box in drawn.boxes:
                if left < box.x + box.width and right > box.x:
                    assert y == end
                    assert not box.y - LINE_GAP + 0.01 < y < box.y + box.height + LINE_GAP - 0.01


@given(plans())
def test_the_same_plan_always_looks_the_same(edges):
    mixed = {name: edges[name][::-1] for name in reversed(edges)}
    assert placed(mixed) == placed(edges)


def test_a_chain_is_a_straight_line():
    drawn = placed({"a": [], "b": ["a"], "c": ["b"]})
    assert {box.y for box in drawn.boxes} == {0.0}
    assert drawn.height == HEIGHT


def test_lines_that_need_not_cross_do_not():
    edges = {"a": [], "b": [], "c": [], "x": ["c"], "y": ["b"], "z": ["a"]}
    tops = {box.name: box.y for box in placed(edges).boxes}
    assert (tops["x"], tops["y"], tops["z"]) == (tops["c"], tops["b"], tops["a"])


def test_a_fork_stands_in_the_middle_of_its_branches():
    tops = {box.name: box.y for box in placed({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}).boxes}
    assert tops["a"] == tops["d"] == pytest.approx((tops["b"] + tops["c"]) / 2)


def test_more_bends_than_anybody_could_follow_are_left_out():
    """Every task waits for all before it: 300 layers, four million bends."""
    names = [f"t{number:03}" for number in range(300)]
    drawn = placed({name: names[:at] for at, name in enumerate(names)})
    assert len(drawn.routes) == 300 * 299 / 2
    assert sum(len(route.points) // 2 - 1 for route in drawn.routes) <= layout.MOST_BENDS
    assert all(len(route.points) >= 2 for route in drawn.routes)


def test_nothing_is_drawn_of_nothing():
    drawn = lay_out({}, {})
    assert (drawn.width, drawn.height, drawn.boxes, drawn.routes) == (0.0, 0.0, (), ())
