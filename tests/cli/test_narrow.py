"""Tables on terminals of all widths: names whole, one line for a row, nothing wider than the terminal."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from sortie.cli.main import main
from sortie.cli.printing import Columns

from .scene import BLOCK, CRASH, REVIEW, Scene, ask, wait_until
from .test_live import SEQUENCE, FakeTerminal, at_a_terminal, drawn, glance

HOSTILE = "日本語のタイトル 🎉 \u202egnihtyreve\x1b[2J of a [red]title[/red]\nthat goes on and on"
LONG = "the password store refuses us since yesterday " * 10
NAMES = ("PLATFORM-1001", "PLATFORM-1002", "PLATFORM-1003", "PLATFORM-1004")


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """After a service: one handed off, one parked, one that waits for its next try, one that waits for another."""
    scene = Scene(tmp_path_factory.mktemp("narrow"))
    plans = (REVIEW.replace("look", LONG), BLOCK.replace("no access", LONG), f"echo '{LONG}'\n" + CRASH, REVIEW)
    for number, (name, plan) in enumerate(zip(NAMES, plans, strict=True), 1):
        blockers = [{"id": "1", "identifier": NAMES[0]}] if number == 4 else []
        scene.issue(number, plan, identifier=name, title=HOSTILE, blocked_by=blockers)
        (scene.directory / "plan" / name).write_text(plan)
    with scene.service() as service:
        log = scene.directory / "service.log"
        wait_until(lambda: "next try" in log.read_text() and log.read_text().count("run ended") == 2)
        service.terminate()
        service.wait(30)
    return scene


def shown(monkeypatch, width: int, *arguments: str) -> list[str]:
    """What the command prints on a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(FakeTerminal()) as terminal:
        assert main(arguments) == 0
    return [line.rstrip() for line in SEQUENCE.sub("", terminal.getvalue()).splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize(("command", "names"), [("status", NAMES[1:]), ("history", NAMES[:3])])
def test_lists_hold_at_every_width(ended, monkeypatch, command, names, width):
    lines = shown(monkeypatch, width, command, "-w", str(ended.workflow))
    assert [line for line in lines if cell_len(line) > width] == []
    assert all(line.isprintable() for line in lines)
    for name in names:
        assert len([line for line in lines if re.search(rf"(^|Z  ){name}  ", line)]) == 1, "whole, in one line"


def test_a_pipe_has_the_width_that_is_asked_for_and_else_no_limit(ended, monkeypatch, capsys):
    for width in (60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = ask(capsys, "status", "-w", str(ended.workflow)).out.splitlines()
        assert max(map(cell_len, lines)) <= width
    monkeypatch.delenv("COLUMNS")
    assert max(map(cell_len, ask(capsys, "status", "-w", str(ended.workflow)).out.splitlines())) > 80


@pytest.mark.parametrize("width", [60, 80])
def test_a_reason_is_cut_with_an_ellipsis(ended, monkeypatch, width):
    parked = [line for line in shown(monkeypatch, width, "status", "-w", str(ended.workflow)) if NAMES[1] in line]
    assert len(parked) == 1
    assert parked[0].endswith("…")
    assert "the password" in parked[0]
    assert "signal" in parked[0]


def test_a_narrow_history_still_says_which_run_and_how_it_ended(ended, monkeypatch):
    lines = shown(monkeypatch, 60, "history", "-w", str(ended.workflow))
    assert lines[0].split() == ["issue", "run", "outcome", "reason"]
    assert any("needs-human-review" in line for line in lines)


def test_long_text_is_cut_for_a_pipe_too_and_whole_in_why_and_json(ended, capsys):
    where = ("-w", str(ended.workflow))
    for command in ("status", "history"):
        assert LONG.strip() not in ask(capsys, command, *where).out
        assert LONG.strip() in ask(capsys, command, "--json", *where).out
    assert LONG.strip() in ask(capsys, "why", NAMES[1], *where).out


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_table_at_the_end_of_a_run_holds(scene, width):
    """Through a real terminal."""
    scene.issue(1, BLOCK.replace("no access", LONG), title=HOSTILE)
    with at_a_terminal(scene, "run", "--until-idle", columns=width) as (process, terminal):
        terminal.read_until("reason")
        assert process.wait(30) == 3
        terminal.read_to_end()
    table = terminal.text[terminal.text.rindex("issue") :].splitlines()
    assert [line for line in table if cell_len(line) > width] == []
    assert re.match(r"T-1 +parked .*…$", table[1])


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_live_view_keeps_names_whole(width):
    text = drawn(lambda: glance(running=2, waiting=1, parked=1, prefix="PLATFORM-100"), width=width)
    assert [line for line in text.splitlines() if cell_len(line.rstrip()) > width] == []
    for name in ("PLATFORM-100R-0", "PLATFORM-100R-1", "PLATFORM-100W-0", "PLATFORM-100P-0"):
        assert len(re.findall(rf"{name}  ", text)) == 1


CELLS = st.lists(st.text(max_size=60), min_size=4, max_size=4)


@given(st.lists(CELLS, max_size=5), st.integers(1, 120))
def test_no_text_and_no_width_breaks_a_table(rows, width):
    columns = Columns(
        ("issue", "title", "turns", "reason"), rows, cut=("title", "reason"), spare=("turns", "title")
    )
    screen = io.StringIO()
    Console(file=screen, width=width).print(columns)
    assert all(cell_len(line.rstrip()) <= width for line in screen.getvalue().split("\n"))


def test_a_name_wider_than_the_terminal_is_folded_not_cut():
    name = "X" * 100
    screen = io.StringIO()
    Console(file=screen, width=40).print(Columns(("issue", "reason"), [(name, "because " * 20)], cut=("reason",)))
    assert screen.getvalue().count("X") == 100
