"""What the work log is to say of a turn that is over: decided from facts, so that it can be read in one place.

The agent's own words count. Only what it did not record itself is recorded for it; what it did against the rules,
and what it could not do, is told by us.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec import Struct

from ...protocol.foreign_text import shortened
from ..finding import Finding
from ..turn_register import INTERRUPTED, Turn
from ..worklog.compose import AnyRecordable, Completion, Escalation, Handoff, Note
from .outcome import BLOCKED, FAILED, REVIEW, RunResult

MOST_FILES = 200
LONGEST_REASON = 4_000
MOST_FINDINGS = 50
NOT_REPORTED = "not reported"


class Recording(Struct, frozen=True, kw_only=True):
    """One entry. `name` tells it from the others of its turn; `by_agent`: it is the agent's, and written for it."""

    name: str
    what: AnyRecordable
    by_agent: bool = False


def recordings(
    turn: Turn, result: RunResult, files: Sequence[str], told: Set[str], maintainer: str
) -> list[Recording]:
    """What follows the end of a turn, in order. `told` are the types of the events that the agent recorded itself
    in this turn, `files` what it changed."""
    reason = shortened(result.reason.strip(), LONGEST_REASON)
    about = f"Turn {turn.number} of {turn.agent}"
    why = _clean(result.reason)
    if not result.started:
        text = f"It did not begin: {why or 'nobody knows why.'}"
        return [Recording(name="ended", what=Note(title=f"{about} did not begin", text=text))]
    changed = _named(files)
    match result.outcome:
        case outcome if outcome == INTERRUPTED:
            lines = [f"It was interrupted: {why or 'its orchestrator died.'}", *_listed(changed)]
            return [Recording(name="ended", what=Note(title=f"{about} was interrupted", text="\n".join(lines)))]
        case outcome if outcome == FAILED:
            said = "\n".join([f"the turn failed: {why or 'it does not say why.'}", *_listed(changed)])
            return [Recording(name="ended", what=Escalation(subject=f"{about}: {turn.task}", reason=said))]
        case outcome if outcome == BLOCKED:
            if "escalation.requested" in told:
                return []
            said = f"{turn.agent} cannot go on: {why or 'it does not say why.'}"
            return [Recording(name="ended", what=Escalation(subject=turn.task, reason=said), by_agent=True)]
        case outcome if outcome == REVIEW:
            if "handoff.posted" in told:
                return []
            return [Recording(name="ended", what=_handoff(turn, changed, maintainer, reason), by_agent=True)]
    if told & {"task.completed", "handoff.posted"}:
        return []
    what = (
        _handoff(turn, changed, maintainer, reason) if turn.kind == "work" else _completion(turn, changed, reason)
    )
    return [Recording(name="ended", what=what, by_agent=True)]


def findings_entry(turn: Turn, findings: Sequence[Finding], kept: str = "") -> Recording:
    """All findings of a turn in one entry; `kept` is the ref that has what was taken back."""
    taken_back = f"What was taken back is kept as {kept}." if kept else ""
    if len(findings) == 1:
        count, said = "1 finding", f"{_clean(findings[0].sentence)} {taken_back}"
    else:
        lines = [f"- {_clean(finding.sentence)}" for finding in findings[:MOST_FINDINGS]]
        if (more := len(findings) - MOST_FINDINGS) > 0:
            lines.append(f"- and {more:,} more")
        count = f"{len(findings):,} findings"
        said = "\n".join(["namely:", *lines, "", taken_back])
    subject = f"Turn {turn.number} of {turn.agent}: {count}"
    return Recording(name="findings", what=Escalation(subject=subject, reason=said))


def _handoff(turn: Turn, changed: tuple[str, ...], maintainer: str, reason: str) -> Handoff:
    return Handoff(
        task=turn.task,
        next_owner=maintainer,
        changed_files=changed,
        tests=NOT_REPORTED,
        risks=NOT_REPORTED,
        note=_note(turn, reason),
    )


def _completion(turn: Turn, changed: tuple[str, ...], reason: str) -> Completion:
    return Completion(
        task=turn.task, changed_files=changed, tests=NOT_REPORTED, risks=NOT_REPORTED, note=_note(turn, reason)
    )


def _note(turn: Turn, reason: str) -> str:
    written = f"Written by sortie: {turn.agent} did not record the end of turn {turn.number} itself."
    return f"{written}\n\n{reason}" if reason else written


def _clean(said: str) -> str:
    """In one line that ends as a sentence does, whatever a program has put out; nothing of nothing."""
    lines = (" ".join(line.split()) for line in said[: 2 * LONGEST_REASON].splitlines())
    line = shortened(" / ".join(line for line in lines if line), LONGEST_REASON)
    return line if not line or line.endswith((".", "!", "?", "…")) else f"{line}."


def _named(files: Sequence[str]) -> tuple[str, ...]:
    if len(files) <= MOST_FILES:
        return tuple(files)
    return (*files[:MOST_FILES], f"and {len(files) - MOST_FILES:,} more")


def _listed(files: Sequence[str]) -> list[str]:
    return ["It had changed:", *(f"- {file}" for file in files)] if files else ["It had changed no file."]
