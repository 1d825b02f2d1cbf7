"""The order and the layers of tasks that wait for each other (BOX-08, BOX-09, TBX-04)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.plans.graph import descendants, layers, order

DIAMOND = {"write": ["read", "think"], "read": ["find"], "think": ["find"], "find": []}


@st.composite
def acyclic(draw):
    """Names in any order, each waiting for some of those with a smaller hidden number."""
    names = draw(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=12))
    edges = {
        name: draw(st.lists(st.sampled_from(names[:at]), max_size=4)) if at else [] for at, name in enumerate(names)
    }
    return {name: edges[name] for name in draw(st.permutations(names))}


def test_everybody_comes_behind_whom_it_waits_for_and_ties_go_by_name():
    """TBX-04: a deterministic order, the names settle ties."""
    assert order(DIAMOND) == ["find", "read", "think", "write"]
    assert layers(DIAMOND) == [["find"], ["read", "think"], ["write"]]


def test_nothing_has_no_order_and_no_layers():
    assert order({}) == []
    assert layers({}) == []


@given(acyclic())
def test_an_order_holds_everybody_once_behind_whom_it_waits_for(edges):
    ordered = order(edges)
    assert sorted(ordered) == sorted(edges)
    places = {name: place for place, name in enumerate(ordered)}
    assert all(places[before] < places[name] for name in edges for before in edges[name])


@given(acyclic(), st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_how_the_plan_is_written(edges, chance):
    names = list(edges)
    chance.shuffle(names)
    mixed = {name: chance.sample(edges[name], len(edges[name])) for name in names}
    assert order(mixed) == order(edges)
    assert layers(mixed) == layers(edges)


@given(acyclic())
def test_a_layer_is_the_longest_way_that_leads_there(edges):
    depth = {name: number for number, layer in enumerate(layers(edges)) for name in layer}
    assert depth.keys() == edges.keys()
    for name, before in edges.items():
        assert depth[name] == max((depth[one] + 1 for one in before), default=0)


@given(acyclic())
def test_descendants_are_those_that_wait_for_one_or_for_another_descendant(edges):
    for name in edges:
        behind = descendants(edges, [name])
        assert behind == {other for other in edges if {name, *behind} & {*edges[other]}}
    assert descendants(edges, edges) == {name for name in edges if edges[name]}
    assert descendants(edges, []) == set()


@pytest.mark.parametrize(
    "edges", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"first": [], "a": ["c", "first"], "b": ["a"], "c": ["b"]}]
)
def test_a_circle_has_no_order(edges):
    with pytest.raises(ValueError, match="circle: a can never be next"):
        order(edges)
    with pytest.raises(ValueError, match="circle"):
        layers(edges)


def test_a_circle_does_not_hold_up_who_asks_for_descendants():
    assert descendants({"a": ["b"], "b": ["a"]}, ["a"]) == {"a", "b"}


def test_a_chain_of_ten_thousand_is_no_recursion():
    edges = {f"t{number:05}": [f"t{number - 1:05}"] if number else [] for number in range(10_000)}
    assert order(edges) == sorted(edges)
    assert len(layers(edges)) == 10_000
    assert len(descendants(edges, ["t00000"])) == 9_999


def test_fifty_thousand_edges_are_looked_at_once_each():
    class Counted(list[str]):
        looks = 0

        def __iter__(self):
            for one in super().__iter__():
                Counted.looks += 1
                yield one

    chance = random.Random(7)
    names = [f"t{number:05}" for number in range(10_000)]
    edges = {name: Counted(chance.choices(names[:at], k=5) if at else []) for at, name in enumerate(names)}
    assert len(order(edges)) == 10_000
    assert Counted.looks == sum(map(len, edges.values()))
