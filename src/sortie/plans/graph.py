"""Who comes before whom: an order of tasks, their layers, and all that stands behind some of them.

Everywhere `edges[name]` are the names that it waits for, and each of these is a key too. The answers depend on the
names only, not on the order in which they are given. Nothing here recurses: a chain may be as long as it likes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

Edges = Mapping[str, Collection[str]]


def order(edges: Edges) -> list[str]:
    """Every name behind all those that it waits for; of several that could be next, the first by name.

    Raises ValueError where the names wait for each other in a circle.
    """
    behind = _followers(edges)
    missing = {name: len(before) for name, before in edges.items()}
    ready = [name for name, count in missing.items() if not count]
    heapify(ready)
    ordered = []
    while ready:
        name = heappop(ready)
        ordered.append(name)
        for follower in behind[name]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, follower)
    if len(ordered) < len(edges):
        stuck = min(name for name, count in missing.items() if count)
        raise ValueError(f"there is a circle: {stuck} can never be next")
    return ordered


def layers(edges: Edges) -> list[list[str]]:
    """The names by the longest way that leads to them: the first layer waits for nobody, and each name stands right
    behind the last of those that it waits for. By name within a layer. Raises ValueError for a circle."""
    depth = depths(edges)
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in sorted(depth):
        found[depth[name]].append(name)
    return found


def depths(edges: Edges) -> dict[str, int]:
    """The number of the layer of each name, from 0."""
    found: dict[str, int] = {}
    for name in order(edges):
        found[name] = max((found[before] for before in edges[name]), default=-1) + 1
    return found


def descendants(edges: Edges, names: Iterable[str]) -> set[str]:
    """All that wait for one of these, directly or not."""
    behind, reached = _followers(edges), set[str]()
    ahead = list(names)
    while ahead:
        for one in behind[ahead.pop()]:
            if one not in reached:
                reached.add(one)
                ahead.append(one)
    return reached


def _followers(edges: Edges) -> dict[str, list[str]]:
    behind: dict[str, list[str]] = {name: [] for name in edges}
    for name, before in edges.items():
        for one in before:
            behind[one].append(name)
    return behind
