"""The operator's commands: what `unpark`, `stop`, `retry`, `start` and `answer` do, and what the person is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from . import events as ev
from .conclude import Next
from .model import RetryKind, like
from .policy import session_refused
from .records import Claim, ParkedIssue, Waiting
from .schedule import Schedule

# Of an answer, in bytes: it goes into a prompt.
LONGEST_ANSWER = 64 * 1024


class Reply(Struct, frozen=True):
    """What a person is told about a command, and what it does; `issue_id` is the issue that was meant."""

    ok: bool
    outcome: str
    events: tuple[ev.AnyEvent, ...] = ()
    issue_id: str = ""


def find(schedule: Schedule, text: str) -> str | None:
    """The issue meant by an id or an identifier; `#42` is 42, and `proj-7` PROJ-7, where nothing else is called
    so."""
    for held in _known(schedule):
        if text in held:
            return text
        for issue_id, item in held.items():
            if item.identifier == text:
                return issue_id
    alias = text.lstrip("#") if text[:1] == "#" else text.upper()
    return find(schedule, alias) if alias != text else None


def try_agent_again(schedule: Schedule, now: float) -> tuple[ev.AnyEvent, ...]:
    """Let one run show whether each agent works again, now instead of later; nothing where nothing holds one."""
    return tuple(
        like(ev.ProviderPaused, fault, at=now, provider=provider, until=now)
        for provider, fault in sorted(schedule.pauses.items())
        if fault.is_fault
    )


def matching(schedule: Schedule, verb: str, kind: str) -> list[str]:
    """Every issue to which the command applies; `kind`, if any, is why it is parked or waits, as `status` says."""
    parked: list[tuple[str, str]] = [(item.identifier, item.park.kind) for item in schedule.parked.values()]
    waiting: list[tuple[str, str]] = [(item.identifier, item.retry.kind) for item in schedule.waiting.values()]
    running = [(run.identifier, "running") for run in schedule.running.values() if not run.stop and not run.ended]
    found = {"unpark": parked, "retry": [*waiting, *parked], "stop": [*running, *waiting]}[verb]
    return [identifier for identifier, why in found if kind in ("", why)]


def obey(schedule: Schedule, verb: str, text: str, now: float) -> Reply:
    if verb == "retry" and not text:
        held = try_agent_again(schedule, now)
        what = "is tried again now" if held else "is not held up"
        return Reply(True, f"The {schedule.policy.provider} agent {what}.", held)
    issue_id = find(schedule, text)
    if issue_id is None:
        return Reply(False, f"{text} is not known; `sortie status` lists what is.")
    if verb not in VERBS:
        return Reply(False, f"{verb} is not a command; use one of {', '.join(VERBS)}.")
    return replace(VERBS[verb](schedule, issue_id, name_of(schedule, issue_id), now), issue_id=issue_id)


def problem_with_answer(text: str) -> str:
    """Why this is no answer, as a sentence; empty where it is one."""
    if not text.strip():
        return "The answer is empty; say something that the agent can go on with."
    if len(text.encode("utf-8", "replace")) > LONGEST_ANSWER:
        return f"The answer is longer than {LONGEST_ANSWER // 1024} KiB; put the rest where the agent can read it."
    return ""


def answer(schedule: Schedule, issue: str, text: str, now: float, *, answer_id: str, comment: str) -> Reply:
    """What a person says to the agent of an issue, whatever that is doing: it is told with its next turn, and an
    issue that is parked is freed as `unpark` frees it. `comment` is what the tracker is to be told, if anything.
    What is said twice before the agent has worked with it, as by a person who types it again, counts once."""
    issue_id = find(schedule, issue)
    if issue_id is None:
        return Reply(False, f"{issue} is not known; `sortie status` lists what is.")
    if problem := problem_with_answer(text):
        return Reply(False, problem, issue_id=issue_id)
    name, view = name_of(schedule, issue_id), schedule.issues.get(issue_id)
    if view and schedule.policy.is_terminal(view.state) and issue_id not in schedule.running:
        over = f"{name} is in {view.state}, so no agent is started for it; reopen it first."
        return Reply(False, over, issue_id=issue_id)
    if issue_id not in schedule.parked and any(one.text == text for one in schedule.answers_for(issue_id)):
        return Reply(True, f"{name} has this answer already; its agent gets it once.", issue_id=issue_id)
    events: list[ev.AnyEvent] = [ev.Answered(at=now, issue_id=issue_id, answer_id=answer_id, text=text)]
    if comment:
        effect_id = f"{answer_id}.answer"
        events.append(
            ev.EffectPlanned(at=now, issue_id=issue_id, effect_id=effect_id, verb="comment", argument=comment)
        )
    if issue_id in schedule.parked:
        events += _unpark(schedule, issue_id, name, now, why="answered").events
    return Reply(True, f"{name} {_when_told(schedule, issue_id)}", tuple(events), issue_id)


def _when_told(schedule: Schedule, issue_id: str) -> str:
    if issue_id in schedule.parked:
        return "is free to start again; its agent gets your answer."
    run = schedule.running.get(issue_id)
    if run and not (run.stop or run.ended):
        return "is running; its agent gets your answer with its next turn."
    return "is not running now; its agent gets your answer when it starts again."


def name_of(schedule: Schedule, issue_id: str) -> str:
    return next(held[issue_id].identifier for held in _known(schedule) if issue_id in held)


def move(schedule: Schedule, issue_id: str, left: Next, now: float) -> list[ev.AnyEvent]:
    """An issue that is not running is put into the state that its source says; what it waited or was parked for is
    over. Where it is to run again, it does so as its next attempt, and with a new budget if it had used up one."""
    name, view, found = name_of(schedule, issue_id), schedule.issues[issue_id], list[ev.AnyEvent]()
    parked = schedule.parked.get(issue_id)
    if left.then == "again":
        used_up = parked is not None and parked.park.kind == "budget"
        again = _next_try(schedule, issue_id, "unparked", now)
        found.append(
            ev.Unparked(
                at=now, issue_id=issue_id, identifier=name, why="by hand", reset_budget=used_up, retry=again
            )
        )
    elif parked:
        found.append(ev.Unparked(at=now, issue_id=issue_id, identifier=name, why="by hand"))
    elif issue_id in schedule.waiting:
        found.append(ev.RetryDropped(at=now, issue_id=issue_id, identifier=name, why="by hand"))
    seen = replace(view, state=left.state or view.state, memo=left.memo, fingerprint="")
    return [*found, ev.IssueSeen(at=now, issue_id=issue_id, view=seen)]


def _known(schedule: Schedule) -> Sequence[Mapping[str, Claim | Waiting | ParkedIssue | ev.View]]:
    return schedule.running, schedule.waiting, schedule.parked, schedule.issues


def _unpark(schedule: Schedule, issue_id: str, name: str, now: float, why: str = "by hand") -> Reply:
    parked = schedule.parked.get(issue_id)
    if parked is None:
        return Reply(False, f"{name} is not parked.")
    freed = ev.Unparked(
        at=now,
        issue_id=issue_id,
        identifier=name,
        why=why,
        reset_budget=parked.park.kind == "budget",
        retry=replace(_next_try(schedule, issue_id, "unparked", now), by_hand=_is_inactive(schedule, issue_id)),
    )
    return Reply(True, f"{name} is free to start again.", (freed,))


def _stop(schedule: Schedule, issue_id: str, name: str, now: float) -> Reply:
    reason = "stopped by hand"
    if run := schedule.running.get(issue_id):
        if run.stop or run.ended:
            return Reply(False, f"{name} is ending already.")
        stopping = ev.Stopping(at=now, issue_id=issue_id, run_id=run.run_id, cause="operator", detail=reason)
        return Reply(True, f"{name} is being stopped and parked.", (stopping,))
    if issue_id in schedule.waiting:
        attempt, session_id = schedule.reached(issue_id)
        view = schedule.issues.get(issue_id)
        park = ev.Park(
            kind="operator",
            reason=reason,
            fingerprint="",
            attempt=attempt,
            session_id=session_id,
            state=view.state if view and schedule.is_asked_for(issue_id) else "",
        )
        parked = ev.Parked(at=now, issue_id=issue_id, identifier=name, park=park)
        return Reply(True, f"{name} will not be tried again; it is parked.", (parked,))
    return Reply(False, f"{name} is not running.")


def _retry(schedule: Schedule, issue_id: str, name: str, now: float) -> Reply:
    if issue_id in schedule.running:
        return Reply(False, f"{name} is running.")
    if issue_id in schedule.parked:
        freed = _unpark(schedule, issue_id, name, now)
        return replace(freed, events=(*freed.events, *try_agent_again(schedule, now)))
    held = try_agent_again(schedule, now)
    if issue_id in schedule.waiting:
        moved = ev.RetryDue(at=now, issue_id=issue_id, due_at=now, why="by hand")
        return Reply(True, f"{name} is tried again {_when(schedule, now)}.", (moved, *held))
    state = schedule.issues[issue_id].state
    if not schedule.policy.is_active(state):
        return Reply(False, f"{name} is in {state}, which is not an active state.")
    if held:
        return Reply(True, f"{name} waits for its agent, which is tried again now.", held)
    return Reply(True, f"{name} is waiting for its turn already; `sortie why` says for what.")


def _start(schedule: Schedule, issue_id: str, name: str, now: float) -> Reply:
    """A run whatever the source shows of the issue; slots and budgets still count."""
    if issue_id in schedule.running:
        return Reply(False, f"{name} is running.")
    if issue_id not in schedule.issues:
        return Reply(False, f"{name} is not in the tracker.")
    view = schedule.issues[issue_id]
    if spent := session_refused(schedule.spent_on(issue_id), schedule.limits_of(view)):
        return Reply(False, f"{name} has used up its budget ({spent}); `sortie unpark {name}` gives it a new one.")
    retry = replace(_next_try(schedule, issue_id, "started", now), by_hand=True)
    asked = ev.Requested(at=now, issue_id=issue_id, identifier=name, retry=retry)
    return Reply(True, f"{name} starts as soon as there is a slot.", (asked,))


VERBS = {"unpark": _unpark, "stop": _stop, "retry": _retry, "start": _start}


def _is_inactive(schedule: Schedule, issue_id: str) -> bool:
    """Then only a person's word lets it start."""
    view = schedule.issues.get(issue_id)
    return view is not None and not schedule.policy.is_active(view.state)


def _next_try(schedule: Schedule, issue_id: str, kind: RetryKind, now: float) -> ev.Retry:
    attempt, session_id = schedule.reached(issue_id)
    return ev.Retry(kind=kind, attempt=attempt + 1, due_at=now, session_id=session_id)


def _when(schedule: Schedule, now: float) -> str:
    pause = schedule.pauses.get(schedule.policy.provider)
    limited = pause is not None and not pause.is_fault and pause.until > now
    return "when the limit of its provider ends" if limited else "now"
