"""Every event as one sentence for a person: the same words in the log, the live view and `sortie why`."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from . import events as ev

RULES = {
    "incomplete": "the record lacks a field",
    "parked": "it is parked until a person changes it",
    "waiting": "its next try has a time",
    "blocked-by": "it waits for others",
    "provider-paused": "the agent's provider is paused",
    "agent-held": "its agent cannot run",
    "day-budget": "the budget of the day is used up",
    "whole-budget": "the budget of all issues together is used up",
    "no-slot": "all slots are taken",
    "no-state-slot": "all slots for its state are taken",
    "no-host": "no host takes another run",
}

CAUSES = {
    "new": "it was next in line",
    "changed": "a person changed it since it was parked",
    "budget": "it is within its budget again",
    "error": "the last run failed",
    "continuation": "the last run ended without a signal",
    "resume": "the last run was cut short",
    "limit": "the provider's limit ended",
    "held": "its agent could not run before",
    "unparked": "a person freed it",
    "started": "a person asked for it",
    "answered": "a person answered it",
}


# Writes that are called by what they are for.
WRITES = {
    "report": "report of the failure",
    "escalation": "escalation to a person",
    "answer": "comment with the answer in the tracker",
}
# So much of an answer is told; all of it is in the event.
LONGEST_ANSWER_TOLD = 300

# Events that are told in the same words each time: how loud, the words, and the field that adds to them, if any.
_PLAIN: dict[type[ev.AnyEvent], tuple[ev.Level, str, str]] = {
    ev.Parked: ("warning", "parked ({event.park.kind}): {event.park.reason}", ""),
    ev.Stopping: ("info", "stopping the agent ({event.cause})", "detail"),
    ev.Requested: ("info", "a person asked for a run", ""),
    ev.RetryDropped: ("info", "will not be tried again", "why"),
    ev.ProviderResumed: ("info", "the {event.provider} agent can run again", "why"),
    ev.Commanded: ("info", "command {event.verb}: {event.outcome}", ""),
    ev.Opened: ("info", "sortie {event.version} started, pid {event.pid}, {event.workflow}", ""),
    ev.TurnStarted: ("info", "turn {event.turn} started", ""),
    # What only somebody who looks closely wants to see.
    ev.IssueSeen: ("debug", "the tracker shows it in {event.view.state}", ""),
    ev.IssueLeft: ("debug", "the tracker no longer shows it among the active issues", ""),
    ev.WorkspaceMade: ("debug", "workspace {event.path}", ""),
    ev.ProcessStarted: ("debug", "process {event.pid}", ""),
    ev.SessionStarted: ("debug", "session {event.session_id}", ""),
    ev.TurnEnded: ("debug", "turn {event.turn} completed", ""),
    ev.Charged: ("debug", "used {event.usage.total:,} tokens, ${event.usage.cost_usd:.2f}", ""),
    ev.EffectPlanned: ("debug", "{event.verb} planned", ""),
    ev.Ticked: ("debug", "{event.answers} decisions", ""),
    ev.PolicySet: ("debug", "the rules of the workflow are in force", ""),
}


class Sentence(Struct, frozen=True):
    level: ev.Level
    text: str


def narrate(event: ev.AnyEvent) -> Sentence:
    """What the event means. Texts from agents and trackers are quoted as they are: the reader escapes them."""
    if plain := _PLAIN.get(type(event)):
        level, words, field = plain
        return Sentence(level, _with(words.format(event=event), getattr(event, field) if field else ""))
    match event:
        case ev.Noted():
            return Sentence(event.level, _with(event.message, event.detail))
        case ev.Skipped():
            detail = "" if event.rule == "parked" else event.detail  # why it is parked was said when it was
            return Sentence("info", _with(f"not started: {RULES.get(event.rule, event.rule)}", detail))
        case ev.Claimed():
            why = CAUSES.get(event.cause, event.cause)
            return Sentence("info", f"started run {event.run_id}, attempt {event.attempt}, because {why}")
        case ev.RunEnded():
            return _run_ended(event)
        case ev.Settled():
            return _settled(event)
        case ev.EffectDone():
            return _written(event)
        case ev.ProviderPaused():
            return _paused(event)
        case ev.Answered():
            return Sentence("info", f"a person answered: {_beginning(event.text)}")
        case ev.Unparked():
            reset = "; its budget starts anew" if event.reset_budget else ""
            return Sentence("info", f"no longer parked: {event.why}{reset}")
        case ev.RetryDue():
            return Sentence("info", f"its next try moved to {clock(event.due_at)}: {event.why}")
        case ev.ToolCalled():
            return Sentence("info", f"tool {event.tool}: {event.result} after {event.ms:.0f} ms{_asked(event)}")
        case ev.ActedOn():
            return _acted_on(event)
        case ev.WorkspaceGone():
            return Sentence("info", _with("workspace removed", f"archive {event.archive}" if event.archive else ""))
        case _:
            return Sentence("debug", ev.kind_of(event))


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST_ANSWER_TOLD else words[:LONGEST_ANSWER_TOLD] + " …"


def _written(event: ev.EffectDone) -> Sentence:
    level: ev.Level = "info" if event.ok else "warning"
    if event.verb == "record":
        if event.ok and event.detail:  # about others that were in the log
            return Sentence("warning", event.detail)
        level, what = "debug" if event.ok else "warning", "entry in the work log"
    else:
        what = WRITES.get(event.effect_id.rpartition(".")[2], f"{event.verb} in the tracker")
    return Sentence(level, _with(f"{what} {'done' if event.ok else 'failed'}", event.detail))


def _asked(event: ev.ToolCalled) -> str:
    """` (transition_issue T-2 to Done: tracker_payload_error)`, as far as it is known."""
    words = [event.operation, event.target, event.state and f"to {event.state}"]
    asked = _with(" ".join(filter(None, words)), event.error)
    return f" ({asked})" if asked else ""


def _acted_on(event: ev.ActedOn) -> Sentence:
    agent = f"{event.by}'s agent (run {event.by_run})"
    if not event.error:
        return Sentence("info", f"{agent} moved it to {event.state} with {event.tool}")
    unknown = f"and whether that happened is not known: {event.error}"
    return Sentence("warning", f"{agent} tried to move it to {event.state} with {event.tool}, {unknown}")


def _run_ended(event: ev.RunEnded) -> Sentence:
    turns = f"{event.turns} turn{'' if event.turns == 1 else 's'}"
    if event.status == "succeeded":
        signal = f", signal {event.soft_stop}" if event.soft_stop else ""
        return Sentence("info", _with(f"run ended after {turns}{signal}", event.reason))
    level: ev.Level = "info" if event.status == "cancelled" else "warning"
    return Sentence(level, _with(f"run {event.status} after {turns}", event.error))


def _paused(event: ev.ProviderPaused) -> Sentence:
    if event.error_kind == "rate_limited":
        return Sentence("warning", _with(f"{event.provider} paused until {clock(event.until)}", event.detail))
    return Sentence("warning", _with(f"the {event.provider} agent cannot run, so nothing starts", event.detail))


def _settled(event: ev.Settled) -> Sentence:
    """What follows the end of the run, which told itself what went wrong."""
    if event.park and event.park.kind == "error":
        return Sentence("warning", "parked (error): it is not tried again until a person acts")
    if event.park:
        return Sentence("warning", f"parked ({event.park.kind}): {event.park.reason}")
    if event.retry and event.retry.kind == "held":
        return Sentence("info", "not charged; it starts again when its agent can run")
    if event.retry:
        when = clock(event.retry.due_at)
        why = "" if event.why == event.retry.error else event.why
        return Sentence("info", _with(f"next try ({event.retry.kind}) at {when}", why))
    return Sentence("info", _with("released", event.why))


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _with(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
