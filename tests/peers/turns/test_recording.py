"""What the work log says of a turn that is over, as a person reads it."""

from __future__ import annotations

from typing import Any

import pytest

from sortie.peers.finding import Finding
from sortie.peers.turn_register import Turn
from sortie.peers.turns.outcome import RunResult
from sortie.peers.turns.recording import Recording, findings_entry, recordings
from sortie.peers.worklog.compose import compose
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.parse import parse

TURN = Turn(number=3, agent="ada", kind="work", task="Greet", run_id="run-3", began=1.0)
STDERR = "fatal: not a tree\n\n\n\tMAILBOX.md\n   \n\tWORKLOG.md\t\tx\n"


def written(recording: Recording) -> list[str]:
    """The lines below the heading, which are read back as one event."""
    text = compose(recording.what, actor="sortie", at=1_800_000_000.0)
    assert len(events_of(parse(text.encode()))) == 1
    return text.rstrip("\n").split("\n")[2:]


def found(count: int) -> list[Finding]:
    return [Finding(kind="lane of another", sentence=f"`docs/{n}.md` was changed.") for n in range(count)]


def ended(files: tuple[str, ...] = (), **result: Any) -> list[str]:
    (recording,) = recordings(TURN, RunResult(**result), files, set(), "Rob")
    return written(recording)


def test_one_finding_is_a_sentence():
    """LOG-14: in the line that says that it was escalated."""
    assert written(findings_entry(TURN, found(1))) == [
        "Escalated: Turn 3 of ada: 1 finding — `docs/0.md` was changed."
    ]
    assert written(findings_entry(TURN, found(1), "refs/sortie/reverted/3")) == [
        "Escalated: Turn 3 of ada: 1 finding — `docs/0.md` was changed. What was taken back is kept as "
        "refs/sortie/reverted/3."
    ]


def test_several_findings_are_a_list():
    """LOG-14: below that line, and what is said of all of them apart from it."""
    assert written(findings_entry(TURN, found(2), "refs/sortie/reverted/3")) == [
        "Escalated: Turn 3 of ada: 2 findings — namely:",
        "  - `docs/0.md` was changed.",
        "  - `docs/1.md` was changed.",
        "",
        "  What was taken back is kept as refs/sortie/reverted/3.",
    ]
    lines = written(findings_entry(TURN, found(70)))
    assert (len(lines), lines[-1]) == (52, "  - and 20 more")


def test_the_reason_of_a_failure_is_one_line():
    """LOG-14: whatever a program put into its standard error."""
    reason = "fatal: not a tree / MAILBOX.md / WORKLOG.md x"
    assert ended(outcome="failed", reason=STDERR) == [
        f"Escalated: Turn 3 of ada: Greet — the turn failed: {reason}.",
        "  It had changed no file.",
    ]
    assert ended(outcome="blocked", reason=STDERR) == [f"Escalated: Greet — ada cannot go on: {reason}."]
    assert ended(("a.py",), outcome="interrupted", reason=STDERR) == [
        f"It was interrupted: {reason}.",
        "It had changed:",
        "- a.py",
    ]
    (line, _) = ended(outcome="failed", reason="x\t" * 100_000)
    assert len(line) < 4_100


@pytest.mark.parametrize("reason", ["It was not found. Install it.", "Where is it?", "gone"])
def test_a_sentence_has_one_end(reason):
    """LOG-14: also where the reason is a sentence itself."""
    end = reason if reason.endswith((".", "?")) else f"{reason}."
    assert ended(outcome="failed", reason=reason, started=False) == [f"It did not begin: {end}"]
    assert ended(outcome="failed", reason=reason)[0].endswith(f" failed: {end}")
    assert ended(outcome="interrupted", reason=reason)[0] == f"It was interrupted: {end}"
