"""What an agent may write into the status file, byte by byte, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import BLOCKED, REVIEW, says, writes

RECOGNISED = {
    "plain": (b"blocked\n", "blocked"),
    "without newline": (b"needs-human-review", "needs-human-review"),
    "crlf": (b"blocked\r\n", "blocked"),
    "tabs and spaces": (b"\t blocked \t\r\n", "blocked"),
    "second line": (b"blocked\nneeds-human-review\n", "blocked"),
    "garbage after line one": (b"blocked\n\xff\xfe\0\x1b[31m\n", "blocked"),
    "many lines": (b"needs-human-review\n" + b"reason: x\n" * 2000, "needs-human-review"),
}

IGNORED = {
    "empty": b"",
    "only newline": b"\n",
    "only spaces": b" \t\r\n",
    "leading empty line": b"\nblocked\n",
    "upper case": b"BLOCKED\n",
    "title case": b"Blocked\n",
    "review in upper case": b"NEEDS-HUMAN-REVIEW\n",
    "review in title case": b"Needs-Human-Review\n",
    "longer word": b"blocked-by-ci\n",
    "word of a later version": b"needs-rest\n",
    "review with underscores": b"needs_human_review\n",
    "two words": b"blocked needs-human-review\n",
    "no-break space": b"\xc2\xa0blocked\n",
    "vertical tab": b"blocked\x0b\n",
    "form feed": b"\x0cblocked\n",
    "line separator": b"blocked\xe2\x80\xa8\n",
    "byte order mark": b"\xef\xbb\xbfblocked\n",
    "NUL after": b"blocked\0\n",
    "NUL before": b"\0blocked\n",
    "invalid UTF-8": b"\xff\xfe\xfd\n",
    "old Mac line end": b"blocked\rreason\n",
    "5000 spaces first": b" " * 5000 + b"blocked\n",
}


def add_all(project: Project, cases: Iterable[bytes]) -> None:
    for number, content in enumerate(cases):
        project.add(str(number), writes(content))


def test_recognised_words_stop_the_run_and_nothing_else_in_the_file_matters(project):
    """A2O-03 A2O-04 A2O-05: bytes of the first line decide, trimmed of four bytes only; the rest is for people."""
    add_all(project, [content for content, _ in RECOGNISED.values()])
    project.run()
    stops = [project.only_run(str(number)).soft_stop for number in range(len(RECOGNISED))]
    assert stops == [token for _, token in RECOGNISED.values()]


def test_everything_else_is_ignored_with_a_warning(project):
    """A2O-03 A2O-05 A2O-12 A2O-14 A2O-24: no case folding, trimming or decoding; unknown words break nothing."""
    add_all(project, IGNORED.values())
    project.run()
    for number, case in enumerate(IGNORED):
        run, settled = project.only_run(str(number)), project.settled(str(number))
        assert (run.status, run.soft_stop) == ("succeeded", ""), case
        assert settled.retry and settled.retry.kind == "continuation", case
        assert "unknown value" in project.notes(str(number)), case


def test_the_warning_shows_the_value_bounded_and_escaped(project):
    """A2O-12 A2O-14: the value and the issue's identifier are in the log; no terminal obeys what is in it."""
    project.add("1", writes(b"\x1b[2Jstop\xff" + b"x" * 1000))
    project.run()
    warning = project.notes("1")
    assert r"\x1b[2Jstop\xff" in warning
    assert len(warning) < 400
    (line,) = [line for line in project.output().splitlines() if "unknown value" in line]
    assert '"level": "warning"' in line
    assert '"issue": "T-1"' in line
    assert "\x1b" not in project.output()


def test_an_absent_file_means_going_on(project):
    """A2O-11: no file, and no folder for it, is what productive work looks like; nobody is warned of it."""
    project.add("1", "mkdir -p .sortie")
    project.add("2", "true")
    project.run()
    for issue_id in ("1", "2"):
        assert project.settled(issue_id).retry.kind == "continuation"
        assert project.notes(issue_id) == ""


@pytest.mark.parametrize(
    ("script", "soft_stop"),
    [
        (f"{BLOCKED}; {REVIEW}", "needs-human-review"),
        (f"{BLOCKED}; rm .sortie/status", ""),
        (f"{BLOCKED}; : > .sortie/status", ""),
        (f"echo later > status; {BLOCKED}", "blocked"),
    ],
)
def test_the_last_state_of_the_file_wins(project, script, soft_stop):
    """A2O-10: what was written earlier in the turn does not count."""
    project.add("1", script)
    project.run()
    assert project.only_run("1").soft_stop == soft_stop


def test_the_lines_after_the_first_are_shown_to_people_and_change_nothing(project):
    """A2O-04: they are kept as the reason, bounded and without control characters."""
    reason = b"blocked\nreason: the key \x1b[31mis\x07 missing\ncontext: checked .env\n" + b"y" * 100_000
    project.add("1", writes(reason))
    project.run()
    (kind, text) = project.parked()["1"]
    assert kind == "signal"
    assert text.startswith("the key \\x1b[31mis\\x07 missing\ncontext: checked .env\n")
    assert len(text) <= 2000
    assert project.only_run("1").reason == text
    why = project.sortie("why", "T-1").stdout
    assert "is\\x07 missing" in why
    assert "\x1b" not in why


def test_a_signal_completes_the_turn_ends_the_run_and_is_logged(project):
    """A2O-06: no further turn, a normal end, no retry, the claim released, the word logged with the identifier."""
    project.workflow({"agent": {"max_turns": 5}, "budget": {"per_issue": {"sessions": 5}}})
    project.add("1", f"{BLOCKED}; {says('turn $SORTIE_TURN ended')}")
    assert project.run() == 3
    assert project.diary() == ["turn 1 ended"]
    run = project.only_run("1")
    assert (run.status, run.turns, run.error, run.soft_stop) == ("succeeded", 1, None, "blocked")
    assert project.settled("1").retry is None
    assert project.schedule().running == {}
    assert len(project.events(ev.TurnStarted, "1")) == 1
    (line,) = [line for line in project.output().splitlines() if "the agent signalled blocked" in line]
    assert '"level": "info"' in line
    assert '"issue": "T-1"' in line
