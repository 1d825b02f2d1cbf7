"""The live view of a plan: how far it is and who waits for whom, fitted to the terminal (BOX-09)."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.console import Console

from sortie.cli.plan_live import PlanView
from sortie.core.events import Noted
from sortie.plans.picture import TaskLine
from sortie.plans.plan import Dependency, Plan, Task, WaitFor

from .test_live import SEQUENCE, FakeTerminal, Terminal

PLAN = Plan(
    name="notes",
    path=Path("/p/notes.yaml"),
    root=Path("/p/notes.work"),
    tasks=(
        Task(name="collect", objective="Collect."),
        Task(name="sort", objective="Sort.", depends_on=(Dependency(task="collect"),)),
        Task(name="check", objective="Check.", wait_for=(WaitFor(task="collect"),)),
        Task(name="write", objective="Write.", depends_on=(Dependency(task="sort"), Dependency(task="check"))),
    ),
)
LINES = (
    TaskLine(name="collect", state="completed", seconds=65.0, tokens=1500, cost_usd=0.25, layer=0),
    TaskLine(
        name="sort",
        state="running",
        note="attempt 2",
        progress="step 3/5 analysing",
        seconds=5.0,
        tokens=20_000,
        cost_usd=1.0,
        layer=1,
    ),
    TaskLine(name="check", state="failed", note="the key secret-secret is wrong", layer=1),
    TaskLine(name="write", state="blocked", note="check failed", layer=2),
)


def crowd(count, layers):
    return [TaskLine(name=f"t{number:05}", state="waiting", layer=number % layers) for number in range(count)]


def empty_plan():
    return Plan(name="big", path=Path("/p/big.yaml"), root=Path("/p/big.work"), tasks=())


@pytest.fixture
def screen(monkeypatch):
    """Draws one picture on a terminal of this size."""

    def draw(look, *events, plan=PLAN, columns=80, rows=30, prepare=lambda view: None):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(rows))
        view = PlanView(plan, look, lambda text: text.replace("secret-secret", "[redacted]"), {}, FakeTerminal())
        for event in events:
            view.on_event(event)
        prepare(view)
        paper = io.StringIO()
        Console(file=paper, width=columns).print(view.picture())
        return SEQUENCE.sub("", paper.getvalue()).splitlines()

    return draw


def test_it_shows_how_far_it_is_who_waits_for_whom_and_what_each_does_and_took(screen):
    assert screen(lambda: LINES)[:7] == [
        "notes  1 of 4 completed, 1 running, 1 failed, 1 blocked  (21.5k tokens, $1.25)",
        "✓   collect  completed   1m05s · 1.5k tokens · $0.25",
        "├─╮",
        "│ ✗ check    failed      the key [redacted] is wrong",
        "● │ sort     running     step 3/5 analysing · 5s · 20.0k tokens · $1.00",
        "├─╯",
        "■   write    blocked     check failed",
    ]


def test_before_anything_is_known_it_says_so(screen):
    assert screen(lambda: None) == ["starting …"]


def test_a_look_that_collides_with_a_change_shows_the_last_picture(screen):
    answers = iter([LINES, RuntimeError("dictionary changed size during iteration"), KeyError("sort")])

    def look():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_twice(view):
        view.picture()
        view.picture()

    assert screen(look, prepare=look_twice)[0].startswith("notes  1 of 4 completed")


def test_the_last_sentences_and_what_is_wrong_stand_below(screen):
    def trouble(view):
        view.log("warning", "the clock jumped")
        view.on_trouble("the disk is full")
        view.on_drain()

    noted = Noted(at=0.0, level="info", message="collect is done")
    text = "\n".join(screen(lambda: LINES, noted, prepare=trouble))
    assert text.index("check failed") < text.index("stopping") < text.index("the disk is full")
    assert text.index("the disk is full") < text.index("collect is done") < text.index("the clock jumped")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 24), (20, 16), (200, 60), (80, 5), (1, 1)])
@pytest.mark.parametrize("layers", [1, 7, 10_000])
def test_ten_thousand_tasks_are_cut_to_the_screen_and_counted(screen, columns, rows, layers):
    tasks = crowd(10_000, layers)
    tasks[5000] = TaskLine(name="busy", state="running", progress="step 1/2", layer=tasks[5000].layer)

    def trouble(view):
        view.on_drain()
        view.on_trouble("the disk is full")
        for number in range(20):
            view.log("info", f"note {number}")

    lines = screen(lambda: tasks, plan=empty_plan(), columns=columns, rows=rows, prepare=trouble)
    assert len(lines) <= max(rows, 16)
    assert all(len(line) <= columns for line in lines)
    if columns >= 80:
        assert "0 of 10,000 completed, 1 running, 9,999 waiting" in lines[0]
        assert any(line.startswith("layer") and "waiting" in line for line in lines)
    if columns >= 20 and rows >= 24:
        assert any("busy" in line for line in lines)


def test_of_a_crowd_nobody_is_asked_about_who_is_not_shown(screen):
    looked_at = set()

    class Line(TaskLine, frozen=True):
        def __getattribute__(self, attribute):
            if attribute == "note":
                looked_at.add(super().__getattribute__("name"))
            return super().__getattribute__(attribute)

    tasks = [Line(name=f"t{number:05}", state="waiting", note="why", layer=0) for number in range(10_000)]
    lines = screen(lambda: tasks, plan=empty_plan(), rows=24)
    assert 0 < len(looked_at) == sum("why" in line for line in lines) < 24


def test_where_the_lanes_do_not_fit_it_is_said_who_is_waited_for(screen):
    waiting = [TaskLine(name=line.name, state="waiting", layer=line.layer) for line in LINES]
    assert screen(lambda: waiting, rows=16)[1:6] == [
        "layer 1: 1 task: 1 waiting",
        "  ○ collect  waiting",
        "layer 2: 2 tasks: 2 waiting",
        "  ○ sort     waiting     after collect",
        "layer 3: 1 task: 1 waiting",
    ]


def test_a_plan_that_changed_meanwhile_is_drawn_as_far_as_it_is_known(screen):
    new = TaskLine(name="announce", state="ready", layer=0)
    lines = screen(lambda: [*LINES[1:], new])
    assert any("announce" in line for line in lines)
    assert not any("collect" in line for line in lines)


def test_what_an_agent_says_cannot_push_out_what_it_takes_nor_move_the_cursor(screen):
    talk = TaskLine(
        name="sort", state="running", progress="\x1b[2J\u202e" + "日本語\n" * 5000, seconds=5.0, layer=0
    )
    lines = screen(lambda: [talk])
    (line,) = [line for line in lines if "sort" in line and "running" in line]
    assert line.endswith("… · 5s")
    assert "\x1b" not in line
    assert "\u202e" not in line


PROGRAM = """
import sys
from pathlib import Path
from sortie.cli.plan_live import PlanView
from sortie.plans.picture import TaskLine
from sortie.plans.plan import Dependency, Plan, Task

first = Task(name="first", objective="x")
tasks = (first, Task(name="next", objective="y", depends_on=(Dependency(task="first"),)))
plan = Plan(name="small", path=Path("p.yaml"), root=Path("p.work"), tasks=tasks)
lines = [TaskLine(name="first", state="running", layer=0), TaskLine(name="next", state="waiting", layer=1)]
view = PlanView(plan, lambda: lines, str, {})
view.open()
view.log("info", "it began")
sys.stdin.readline()
lines[0] = TaskLine(name="first", state="completed", layer=0)
sys.stdin.readline()
view.close()
view.close()
"""


def test_at_a_terminal_it_follows_the_plan():
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=far,
        stderr=far,
        env={**environ, "TERM": "xterm"},
        text=True,
    )
    try:
        os.close(far)
        terminal = Terminal(near)
        assert process.stdin
        terminal.read_until("0 of 2 completed, 1 running, 1 waiting")
        terminal.read_until("it began")
        process.stdin.write("\n")
        process.stdin.flush()
        terminal.read_until("1 of 2 completed, 1 waiting")
        assert "✓ first" in terminal.text
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
        os.close(near)
