"""A plan drawn for a terminal: never wider or longer than there is room, and all that is cut is counted."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sortie.cli.plan_drawing import MARKS, MOST_DRAWN, after, draw_text
from sortie.cli.plan_graph import as_data, graph_command, headline, write_drawing
from sortie.errors import SortieError
from sortie.plans.picture import STATES, Edge, Node, Picture

HOSTILE = "日本語 🎉 \u202egnihtyreve\x1b[2J\x00 of a [red]title[/red]\nthat goes on and on"

NOTES = Picture(
    (
        Node("collect", "Collect the commits.", "completed"),
        Node("sort", "Sort them.", "running", "step 3/5"),
        Node("check", "Check them.", "failed", "no network"),
        Node("write", "Write the notes."),
    ),
    (Edge("collect", "sort"), Edge("collect", "check"), Edge("sort", "write"), Edge("check", "write", "order")),
)


@st.composite
def pictures(draw, most=12):
    names = [f"task-{'x' * (number % 5) * 15}{number}" for number in range(draw(st.integers(0, most)))]
    nodes = tuple(
        Node(name, draw(st.sampled_from(["", HOSTILE])), draw(st.sampled_from([*STATES, "odd"])), draw(st.text()))
        for name in names
    )
    before = {
        (draw(st.sampled_from(names[:at])), name)
        for at, name in enumerate(names)
        for _ in range(draw(st.integers(0, 3)))
        if at
    }
    return Picture(nodes, tuple(Edge(*pair) for pair in sorted(before)))


def crowd(tasks, layers=3, state="waiting", **states):
    """`layers` layers with the same number of tasks; each waits for all of the layer before if these are few."""
    wide = tasks // layers
    nodes = [Node(f"t{number:05}", "", states.get(f"t{number}", state)) for number in range(tasks)]
    return Picture(tuple(nodes), tuple(Edge(nodes[at - wide].name, nodes[at].name) for at in range(wide, tasks)))


def plain(picture, width=80, **rows):
    return ["".join(text for text, _ in line) for line in draw_text(picture, width, **rows)]


def test_a_small_plan_is_drawn_with_lanes_states_and_reasons():
    assert plain(NOTES) == [
        "✓   collect  completed   Collect the commits.",
        "├─╮",
        "│ ✗ check    failed      no network",
        "● │ sort     running     step 3/5",
        "├─╯",
        "○   write    waiting     Write the notes.",
    ]


def test_where_there_is_little_room_the_sentence_goes_first_and_the_state_next():
    assert plain(NOTES, 30)[3] == "● │ sort     running"
    assert plain(NOTES, 18)[3] == "● │ sort"
    assert plain(NOTES, 8)[2] == "│ ✗ che…"


def test_every_state_has_a_colour_that_the_mark_and_the_word_bear():
    assert set(MARKS) == set(STATES)
    picture = Picture((*(Node(f"t-{state}", "", state) for state in STATES),), (Edge("t-running", "t-ready"),))
    pieces = [piece for line in draw_text(picture, 80) for piece in line]
    for state, (mark, style) in MARKS.items():
        assert (mark, style) in pieces
        assert (f"  {state}", style) in pieces


@given(pictures(), st.integers(1, 120), st.integers(1, 40))
def test_it_is_never_wider_nor_longer_than_there_is_room(picture, width, rows):
    lines = plain(picture, width, rows=rows)
    assert len(lines) <= rows
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)


@given(pictures(), st.integers(1, 40))
def test_whatever_is_not_listed_is_counted(picture, rows):
    lines = plain(picture, 10_000, rows=rows)
    listed = sum(bool(re.search(rf" {node.name}( |$)", "\n".join(lines), re.M)) for node in picture.nodes)
    headings = [re.match(r"layers? (\d+)(?: to \d+)?: ([\d,]+) tasks?: ", line) for line in lines]
    if any(headings):
        assert sum(int(heading[2]) for heading in headings if heading) == len(picture.nodes)
    else:
        assert listed == len(picture.nodes)


def test_a_crowd_becomes_a_list_of_layers_with_the_most_urgent_first():
    picture = crowd(MOST_DRAWN * 3, t250="running", t251="failed", t10="completed")
    assert plain(picture, 80, rows=5) == [
        "layer 1: 200 tasks: 199 waiting, 1 completed",
        "layer 2: 200 tasks: 1 running, 1 failed, 198 waiting",
        "  ● t00250  running     after t00050",
        "  ✗ t00251  failed      after t00051",
        "layer 3: 200 tasks: 200 waiting",
    ]


def test_layers_of_which_none_is_listed_are_counted_together():
    picture = crowd(1000, layers=500, t500="running")
    lines = plain(picture, 80, rows=4)
    assert lines == [
        "layers 1 to 250: 500 tasks: 500 waiting",
        "layer 251: 2 tasks: 1 running, 1 waiting",
        "  ● t00500  running     after t00498",
        "layers 252 to 500: 498 tasks: 498 waiting",
    ]


def test_of_ten_thousand_tasks_the_whole_is_counted_in_a_single_row():
    assert plain(crowd(10_000, layers=4), 80, rows=1) == ["layers 1 to 4: 10,000 tasks: 10,000 waiting"]


def test_lanes_wider_than_half_the_terminal_give_way_to_the_list():
    picture = Picture(
        tuple(Node(f"{side}{number}") for side in "ab" for number in range(12)),
        tuple(Edge(f"a{number}", f"b{number}") for number in range(12)),
    )
    assert plain(picture, 80)[0].startswith("○")
    assert plain(picture, 40)[0] == "layer 1: 12 tasks: 12 waiting"


def test_tasks_that_nobody_waits_for_are_a_list():
    assert plain(Picture((Node("a"), Node("b")))) == [
        "layer 1: 2 tasks: 2 waiting",
        "  ○ a  waiting",
        "  ○ b  waiting",
    ]


def test_nothing_is_drawn_of_nothing():
    assert plain(Picture(())) == []


@pytest.mark.parametrize(
    ("names", "words"),
    [([], ""), (["a"], "after a"), (["a", "b", "c", "d", "e"], "after a, b, c and 2 more")],
)
def test_who_is_waited_for_is_named_as_far_as_there_are_few(names, words):
    assert after(names) == words


def test_data_for_programs_has_layers_tasks_and_edges():
    data = as_data("notes", NOTES)
    assert data["layers"] == [["collect"], ["check", "sort"], ["write"]]
    assert data["nodes"][1] == {"name": "sort", "title": "Sort them.", "state": "running", "note": "step 3/5"}
    assert data["edges"][3] == {"before": "check", "after": "write", "kind": "order", "on_failure": "block"}


def test_the_headline_counts():
    assert headline("notes", NOTES) == "notes: 4 tasks: 1 running, 1 failed, 1 waiting, 1 completed"


def test_json_is_a_form_of_its_own(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.touch()
    answer = CliRunner().invoke(graph_command, [str(plan), "--json", "--format", "svg"])
    assert answer.exit_code == 2
    assert "--json is a form of its own" in answer.output


def test_a_file_is_written_whole_and_made_anew(tmp_path):
    """A link is replaced, not followed: what it leads to stays as it is."""
    other, link = tmp_path / "other", tmp_path / "plan.svg"
    other.write_text("mine")
    link.symlink_to(other)
    write_drawing("<svg/>\n", link)
    assert (link.read_text(), link.is_symlink(), other.read_text()) == ("<svg/>\n", False, "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "plan.svg"]


def test_a_file_that_cannot_be_written_is_an_error_with_a_fix(tmp_path):
    with pytest.raises(SortieError, match=r"x\.svg cannot be written: No such file or directory\. Name another"):
        write_drawing("", tmp_path / "nowhere" / "x.svg")
    with pytest.raises(SortieError, match="File name too long"):
        write_drawing("", tmp_path / ("x" * 300))
