"""The live view, as somebody at a terminal sees it: through a pseudo-terminal, and drawn from a glance."""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from contextlib import contextmanager, suppress

from rich.console import Console

from sortie.cli.live import LiveView
from sortie.core.events import Noted, Park, Retry
from sortie.core.model import Usage
from sortie.core.policy import Spent
from sortie.core.records import ParkedIssue, Waiting
from sortie.engine.report import MOST_LISTED, LiveReport, RunReport

from .scene import BLOCK, REVIEW, WAIT

SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The near end of a pseudo-terminal: everything the command wrote to it so far."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # a read may end inside of a character
        self.raw = ""

    def read_until(self, words: str, deadline: float = 30.0) -> None:
        os.set_blocking(self._descriptor, False)
        end = time.monotonic() + deadline
        while words not in self.text:
            assert time.monotonic() < end, f"{words!r} was not shown: {self.text}"
            try:
                self.raw += self._decode(os.read(self._descriptor, 65536))
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break  # the command has ended
        assert words in self.text, self.text

    def read_to_end(self) -> None:
        """All that a command wrote which has ended."""
        os.set_blocking(self._descriptor, True)
        with suppress(OSError):  # how a pseudo-terminal says that nobody holds its far end
            while more := os.read(self._descriptor, 65536):
                self.raw += self._decode(more)

    @property
    def text(self) -> str:
        return SEQUENCE.sub("", self.raw)


@contextmanager
def at_a_terminal(scene, *arguments, columns=160):
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environ["TERM"] = "xterm-256color"
    process = subprocess.Popen(
        scene.command(*arguments), cwd=scene.directory, stdin=far, stdout=far, stderr=far, env=environ
    )
    os.close(far)
    try:
        yield process, Terminal(near)
    finally:
        process.kill()
        process.wait()
        os.close(near)


def test_a_person_sees_what_runs_what_is_parked_and_the_end(scene):
    hostile = "Task \x1b[2Jone [red]x[/red]\u202e"
    scene.issue(1, "printf 'busy \\033[2J[bold]now\\n'\n" + WAIT + REVIEW, title=hostile)
    scene.issue(2, BLOCK)
    with at_a_terminal(scene, "run", "--until-idle") as (process, terminal):
        terminal.read_until("1 parked")
        terminal.read_until("standing by")
        seen = terminal.text
        scene.go()
        terminal.read_until("handed off")
        assert process.wait(30) == 3
    assert re.search(r"1 of 10 running · 0 ready · 0 waiting · 1 parked", seen)
    assert re.search(r"T-1 +Task \\x1b\[2Jone \[red\]x\[/red\]\\u202e", seen)
    assert re.search(r"parked +T-2 +.*no access", seen)
    assert re.search(r"\d\d:\d\d:\d\d +T-1 turn 1 started", seen)
    assert "1/3" in seen
    assert "\x1b[2J" not in terminal.raw, "nobody clears our screen"


def test_ctrl_c_says_what_will_be_resumed(scene):
    scene.issue(1, WAIT + REVIEW)
    with at_a_terminal(scene, "run") as (process, terminal):
        terminal.read_until("standing by")
        process.send_signal(signal.SIGINT)
        terminal.read_until("interrupted: T-1")
        assert process.wait(30) == 0
    assert "Traceback" not in terminal.text


def test_a_second_ctrl_c_ends_at_once_and_gives_the_terminal_back(scene):
    stubborn = "trap '' TERM INT\n" + WAIT
    scene.issue(1, stubborn + REVIEW)
    with at_a_terminal(scene, "run") as (process, terminal):
        terminal.read_until("standing by")
        process.send_signal(signal.SIGINT)
        terminal.read_until("stopping, once more to force")
        process.send_signal(signal.SIGINT)
        terminal.read_until("Ended at once")
        assert process.wait(30) == 1
    assert terminal.raw.rfind("\x1b[?25h") > terminal.raw.rfind("\x1b[?25l"), "the cursor is visible again"


def test_a_terminal_gets_lines_where_json_is_asked_for(scene):
    scene.issue(1, REVIEW)
    with at_a_terminal(scene, "run", "--until-idle", "--log-format", "json") as (process, terminal):
        terminal.read_until("handed off")
        assert process.wait(30) == 0
    assert '{"time": ' in terminal.raw


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def glance(running: int = 0, waiting: int = 0, parked: int = 0, prefix: str = "") -> LiveReport:
    return LiveReport(
        now=1000.0,
        running=tuple(
            RunReport(
                issue_id=str(number),
                identifier=f"{prefix}R-{number}",
                title="a title that says secret-secret",
                run_id="r",
                attempt=1,
                turn=2,
                max_turns=5,
                seconds=65.0,
                quiet_seconds=0.0,
                usage=Usage(1000, 500),
                last_line="the password is secret-secret " + "x" * 20_000,
                ending=False,
            )
            for number in range(running)
        ),
        waiting=tuple(
            Waiting(
                issue_id=str(number),
                identifier=f"{prefix}W-{number}",
                retry=Retry(kind="error", attempt=2, due_at=1030.0, error="it broke"),
            )
            for number in range(min(waiting, MOST_LISTED))
        ),
        parked=tuple(
            ParkedIssue(
                issue_id=str(number),
                identifier=f"{prefix}P-{number}",
                park=Park(kind="signal", reason="no access", fingerprint=""),
                since=0.0,
            )
            for number in range(min(parked, MOST_LISTED))
        ),
        waiting_count=waiting,
        parked_count=parked,
        ready=7,
        slots=9,
        today=Spent(3, 4, 12_345, 1.5),
    )


def drawn(look, *events, width=120) -> str:
    view = LiveView(look, lambda text: text.replace("secret-secret", "[redacted]"), {}, FakeTerminal())
    for event in events:
        view.on_event(event)
    return printed(view, width)


def printed(view: LiveView, width: int = 120) -> str:
    screen = io.StringIO()
    Console(file=screen, width=width).print(view.picture())
    return SEQUENCE.sub("", screen.getvalue())


def test_the_picture_has_counts_times_and_no_secrets():
    text = drawn(lambda: glance(running=2, waiting=1, parked=1))
    assert "2 of 9 running · 7 ready · 1 waiting · 1 parked" in text
    assert "12.3k tokens, $1.50" in text
    assert re.search(r"R-1 .*2/5 +1m05s +1.5k", text)
    assert re.search(r"waits +30s +W-0 +error +it broke", text)
    assert re.search(r"parked +P-0 +no access", text)
    assert "secret" not in text


def test_a_crowd_is_cut_to_the_screen():
    text = drawn(lambda: glance(running=100, waiting=100, parked=100))
    assert "and 95 more" in text
    assert len(text.splitlines()) <= 40


def test_before_the_store_is_open_it_says_so():
    assert drawn(lambda: None).strip() == "starting …"


def test_a_look_that_collides_with_a_change_shows_the_last_picture():
    answers = iter([glance(running=1), RuntimeError("dictionary changed size during iteration"), KeyError("7")])

    def look():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    view = LiveView(look, str, {}, FakeTerminal())
    first = printed(view)
    assert "R-0" in first
    assert [printed(view), printed(view)] == [first, first]


def test_only_the_last_sentences_are_kept():
    events = [Noted(at=float(number), level="info", message=f"note {number}") for number in range(50)]
    text = drawn(lambda: glance(), *events)
    assert "note 49" in text
    assert "note 41" not in text
