"""What a look at the source changes: a pure function of the schedule and the look. The answer is events.

Unchanged issues cost nothing where the source can tell what changed, else a comparison; they leave no trace, so the
log grows with what happens, not with time.

A parked issue stays parked while its fingerprint stays the same, so everything we write ourselves must leave that
alone: our comments end in a mark line and do not count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from . import events as ev
from .model import AgentChoice, Blocker, Issue
from .policy import Policy
from .schedule import Schedule

# How the note ends that what looks need, and could not use, works again.
USABLE_AGAIN = " can be used again"
LONGEST_TITLE = 200
LONGEST_URL = 500
_NO_CHOICE = AgentChoice()
_MARK = re.compile(r"^<!-- sortie:([0-9A-Za-z._:-]+) -->$")


class Look(Struct, frozen=True, kw_only=True):
    """What the source shows now. `issues` are the active ones, `states` those of others that are followed.

    A state that is not told here means that the issue is gone.

    `changed` names every issue that may differ from the look before, also by being gone; None: nobody knows.
    `unasked` are issues whose blockers the look says nothing of: those that are known stay. `problems` has a
    sentence for each record that cannot be used, `counts` how many issues are in each state; where
    `counts_some`, there are more that nobody counted.
    """

    issues: Mapping[str, Issue]
    states: Mapping[str, str] = {}
    changed: frozenset[str] | None = None
    unasked: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = {}
    counts_some: bool = False


def held_elsewhere(schedule: Schedule, active: Collection[str]) -> set[str]:
    """Issues we hold something of that are not among the active ones any more: where did they go?"""
    held = {*schedule.running, *schedule.waiting, *schedule.parked, *_owed_an_answer(schedule)}
    return {issue_id for issue_id in held if issue_id in schedule.issues and issue_id not in active}


def _owed_an_answer(schedule: Schedule) -> Iterable[str]:
    """Issues whose agents will be told what people answered when they start again, which none does that is over."""
    for answer in schedule.answers.values():
        view = schedule.issues.get(answer.issue_id)
        if view and not schedule.policy.is_terminal(view.state):
            yield answer.issue_id


def in_review(schedule: Schedule) -> list[str]:
    """Issues that were handed over to people and, as far as is known, wait for them; the last one first."""
    held = {*schedule.running, *schedule.waiting, *schedule.parked}
    is_handoff, issues = schedule.policy.is_handoff, schedule.issues
    return [key for key in reversed(schedule.inactive) if key not in held and is_handoff(issues[key].state)]


def outdates(event: ev.AnyEvent) -> bool:
    """Whether what we know of its issue may differ from here on from what the source shows, though the source does
    not change: the next look has to compare the two, also where it could tell what changed."""
    return isinstance(event, ev.Claimed | ev.Settled | ev.Unparked | ev.RetryDropped | ev.Requested)


def observe(schedule: Schedule, look: Look, now: float, touched: Collection[str] = ()) -> list[ev.AnyEvent]:
    """`touched` are those that were outdated while the source was asked: what it said of them may be older than
    what we know, so they are left to the next look."""
    found: list[ev.AnyEvent] = []
    for issue_id in _worth_a_look(schedule, look):
        if issue_id not in touched and (event := _about(schedule, look, issue_id, now)):
            found.append(event)
    return found


def _worth_a_look(schedule: Schedule, look: Look) -> Iterable[str]:
    """In the order of the source, then of what we remember."""
    if look.changed is None:
        return dict.fromkeys((*look.issues, *schedule.issues))
    # What was parked since the last look has to be known with its comments, whether it changed or not.
    unknown = {
        issue_id
        for issue_id in schedule.parked
        if issue_id in look.issues and issue_id in schedule.issues and not schedule.issues[issue_id].fingerprint
    }
    # The source tells of changes to active issues; what left them is followed, also out of the source.
    return sorted(look.changed | unknown | look.states.keys() | schedule.inactive.keys())


def _about(schedule: Schedule, look: Look, issue_id: str, now: float) -> ev.AnyEvent | None:
    known = schedule.issues.get(issue_id)
    if issue := look.issues.get(issue_id):
        view = view_of(issue, schedule.policy, parked=issue_id in schedule.parked)
        if known and issue_id in look.unasked:
            view = replace(view, blocked_by=known.blocked_by)
        if known and known.url and not view.url:
            view = replace(view, url=known.url)  # a list may lack what the full record has
        return None if view == known else ev.IssueSeen(at=now, issue_id=issue_id, view=view)
    if known is None:
        return None
    state = look.states.get(issue_id)
    if state is None:
        return ev.IssueLeft(at=now, issue_id=issue_id, identifier=known.identifier)
    view = replace(known, state=state)
    return None if view == known else ev.IssueSeen(at=now, issue_id=issue_id, view=view)


def seen_now(schedule: Schedule, issues: Iterable[Issue], now: float) -> list[ev.AnyEvent]:
    """What the source shows of these, without a look at all of them."""
    policy, parked = schedule.policy, schedule.parked
    return [
        ev.IssueSeen(at=now, issue_id=issue.id, view=view_of(issue, policy, parked=issue.id in parked))
        for issue in issues
    ]


def view_of(issue: Issue, policy: Policy, *, parked: bool) -> ev.View:
    choice = issue.agent or _NO_CHOICE
    return ev.View(
        id=issue.id,
        identifier=issue.identifier,
        title=short_title(issue.title),
        state=issue.state,
        priority=issue.priority,
        created_at=issue.created_at,
        blocked_by=tuple(
            blocker_name(blocker, policy) for blocker in issue.blocked_by if not policy.satisfies(blocker.state)
        )
        if issue.blocked_by
        else (),
        fingerprint=fingerprint(issue) if parked and issue.comments is not None else "",
        agent=choice.kind,
        provider=f"{choice.kind or policy.provider}/{choice.credential}" if choice.credential else "",
        limits=choice.limits,
        memo=issue.memo,
        url=issue.url if len(issue.url) <= LONGEST_URL else "",
    )


def short_title(title: str) -> str:
    """One that is cut says so."""
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"


def blocker_name(blocker: Blocker, policy: Policy) -> str:
    """Its identifier; where the source tells no state of it, that it has no such issue; where it failed, that."""
    name = blocker.identifier or blocker.id
    if not blocker.state:
        return f"{name} (not in the tracker)"
    return f"{name} ({blocker.state})" if policy.is_terminal(blocker.state) else name


# -- what people change about an issue --------------------------------------------------------------------------


def mark(body: str, effect_id: str) -> str:
    """The comment text with the line by which we recognise it later."""
    return f"{body.rstrip()}\n\n<!-- sortie:{effect_id} -->"


def mark_of(body: str) -> str | None:
    """The effect id of a comment of ours, None for anybody else's.

    Only the last line counts, so a person who quotes our comment and answers below it is heard.
    """
    lines = body.rstrip().splitlines()
    found = _MARK.match(lines[-1].strip()) if lines else None
    return found.group(1) if found else None


def fingerprint(issue: Issue) -> str:
    """A digest of state, title, description, labels, assignee and the comments that are not ours.

    Nothing that a stranger writes counts: nobody outside wakes an issue and spends money.
    """
    words = ("", "") if issue.trusted is False else (issue.title, issue.description)
    parts = [issue.state.lower(), *words, issue.assignee]
    parts += [str(len(issue.labels)), *sorted(issue.labels)]
    for comment in issue.comments or ():
        if comment.trusted is not False and mark_of(comment.body) is None:
            parts += [comment.id, comment.author_id or comment.author, comment.body]
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.hexdigest()[:32]
