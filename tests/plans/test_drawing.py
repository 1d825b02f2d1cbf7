"""A plan as an SVG: whole, well-formed and harmless, whatever tasks say of themselves."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from sortie.plans.drawing import COLOURS, DASHES, draw_svg
from sortie.plans.picture import STATES, Edge, Node, Picture, counted, edges_of, picture_of
from sortie.plans.plan import Dependency, Plan, Task, WaitFor

SVG = "{http://www.w3.org/2000/svg}"

PLAN = Plan(
    name="notes",
    path=Path("/p/notes.yaml"),
    root=Path("/p/notes.work"),
    tasks=(
        Task(name="collect", objective="Collect the commits.\nAll of them."),
        Task(name="schema", objective="Fetch the schema."),
        Task(
            name="write",
            objective="Write the notes.",
            depends_on=(Dependency(task="collect", on_failure="continue"),),
            wait_for=(WaitFor(task="collect"), WaitFor(task="schema", on_failure="fail")),
        ),
    ),
)


def drawn(picture):
    return ElementTree.fromstring(draw_svg(picture))


def texts(root, tag="text"):
    return ["".join(element.itertext()) for element in root.iter(SVG + tag)]


def test_a_plan_becomes_a_picture_with_the_states_that_are_known():
    """BOX-08: what is handed on and what is only waited for are different edges."""
    picture = picture_of(PLAN, {"collect": ("running", "step 3/5")})
    assert picture.nodes == (
        Node("collect", "Collect the commits.", "running", "step 3/5"),
        Node("schema", "Fetch the schema.", "waiting", ""),
        Node("write", "Write the notes.", "waiting", ""),
    )
    assert picture.edges == (
        Edge("collect", "write", "data", "continue"),
        Edge("schema", "write", "order", "fail"),
    )
    assert picture.waits_for == {"collect": [], "schema": [], "write": ["collect", "schema"]}
    assert edges_of(PLAN.tasks[0]) == []


def test_the_svg_has_every_task_with_its_state_and_reason_and_every_edge():
    root = drawn(picture_of(PLAN, {"collect": ("failed", "no network")}))
    assert {"collect", "schema", "write"} <= set(texts(root))
    assert "collect: failed\nno network\nCollect the commits." in texts(root, "title")
    assert "collect → write: hands on; goes on without if it fails" in texts(root, "title")
    assert "schema → write: only has to be over; fails with it" in texts(root, "title")
    dashes = [path.get("stroke-dasharray") for path in root.iter(SVG + "path") if path.get("marker-end")]
    assert sorted(dashes) == sorted([DASHES["data", "continue"][0], DASHES["order", "fail"][0]])


def test_the_legend_explains_what_is_used_and_nothing_else():
    root = drawn(picture_of(PLAN, {"collect": ("completed", "")}))
    assert {"1 completed", "2 waiting"} <= set(texts(root))
    assert "only has to be over; fails with it" in texts(root)
    assert "only has to be over" not in texts(root)
    assert not any("running" in text for text in texts(root))


def test_every_state_has_a_look_in_light_and_dark():
    assert set(COLOURS) == set(STATES)
    svg = draw_svg(Picture(tuple(Node(f"t-{state}", "", state) for state in STATES)))
    light, _, dark = svg.partition("@media(prefers-color-scheme:dark)")
    assert all(f".{state} rect" in light and f".{state} rect" in dark for state in STATES)


def test_every_kind_of_edge_has_its_own_dashes():
    assert len({dash for dash, _ in DASHES.values()}) == len({words for _, words in DASHES.values()}) == 6


def test_a_state_nobody_knows_is_named_and_looks_like_waiting():
    root = drawn(Picture((Node("a", "", 'odd"><script>'),)))
    assert 'odd"><script>' in texts(root)
    assert [group.get("class") for group in root.iter(SVG + "g") if group.get("class")] == ["box waiting"] * 2


@given(st.text(), st.text(st.characters()), st.text("<>&\"'\x00\x1b\u202e\ud800\ufffe\n]"))
def test_what_strangers_write_stays_text(title, note, hostile):
    picture = Picture((Node("a", title + hostile, "failed", note + hostile), Node("b", hostile * 1000)))
    svg = draw_svg(picture)
    svg.encode()
    root = ElementTree.fromstring(svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert not set(svg) & set("\x00\x1b\u202e\ufffe")
    assert len(svg) < 20_000


def test_it_needs_nothing_else():
    svg = draw_svg(picture_of(PLAN, {}))
    assert "<script" not in svg
    assert "href" not in svg
    assert "@import" not in svg
    assert svg.count("http") == svg.count('xmlns="http://www.w3.org/2000/svg"') == 1
    assert svg.count("url(") == svg.count("url(#head)")


def test_all_is_within_the_picture():
    root = drawn(picture_of(PLAN, {}))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert root.get("viewBox") == f"0 0 {width:.1f} {height:.1f}"
    for group in root.iter(SVG + "g"):
        x, y = map(float, group.get("transform", "translate(0 0)")[10:-1].split())
        assert 0 <= x < width
        assert 0 <= y < height


def test_a_plan_without_tasks_is_drawn_too():
    assert texts(drawn(Picture(())), "title") == ["no tasks"]


def test_counts_come_with_the_most_urgent_first():
    assert counted({"waiting": 1116, "running": 4, "odd": 2, "failed": 0}) == "4 running, 1,116 waiting, 2 odd"
