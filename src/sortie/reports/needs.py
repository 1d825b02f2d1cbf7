"""What waits for a person: questions of agents, failures, reviews, and what keeps everything from starting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from sqlite3 import Connection
from typing import Literal, Protocol

from msgspec import Struct

from ..core.model import View
from ..core.policy import Policy
from ..core.redact import Hide
from ..core.schedule import Schedule
from ..plans.plan import Plan
from ..plans.progress import FAILED
from ..plans.standing import left_to_people, standings
from ..store.queries import history, skipped_at
from .words import seconds_of, web_link

NeedKind = Literal["signal", "error", "budget", "operator", "review", "out-of-budget", "agent", "tracker", "store"]

# A tracker that fails one or two polls may recover at the next. Pages show it before a notification is sent.
SHOWN_AFTER = 60.0
OUT_OF_BUDGET = ("day-budget", "whole-budget")
# Of so many issues that a budget holds back is looked up since when.
MOST_ASKED = 20
DAY = 86400.0


class LiveTrouble(Protocol):
    """What a service tells of its looks at the tracker and of its store: `engine.report.LiveReport`."""

    @property
    def last_look_error(self) -> str: ...
    @property
    def looks_failing_for(self) -> float: ...
    @property
    def look_needs_person(self) -> bool: ...
    @property
    def store_trouble(self) -> str: ...
    @property
    def store_troubled_since(self) -> float: ...


class Need(Struct, frozen=True, kw_only=True):
    """Something that waits for a person. `signal`, `error`, `budget` and `operator` are kinds of parked issues, and
    `error` is a task of a plan that failed, too: what is decided about that is no answer;
    `review` was handed over by its agent, and nobody has moved it on; `out-of-budget`, `agent`, `tracker` and
    `store` are about many issues and name none. `url` is where the tracker shows the issue, if that is known."""

    kind: NeedKind
    text: str
    issue_id: str = ""
    identifier: str = ""
    title: str = ""
    since: float | None = None
    can_answer: bool = False
    url: str = ""


def service_needs(live: LiveTrouble | None, now: float, hide: Hide) -> Iterator[Need]:
    """Without the service's report its polls, and failed writes to the store, are unknown."""
    if live and live.store_trouble:
        yield Need(
            kind="store",
            text=f"The store cannot be written, so nothing new starts: {hide(live.store_trouble)}",
            since=live.store_troubled_since,
        )
    if live and live.last_look_error and (live.look_needs_person or live.looks_failing_for >= SHOWN_AFTER):
        yield Need(
            kind="tracker",
            text=f"The tracker cannot be used, so nothing new starts: {hide(live.last_look_error)}",
            since=now - live.looks_failing_for,
        )


def most_pressing_first(needs: Iterable[Need]) -> list[Need]:
    """Questions before failures, and who waits longest first."""
    order = {"signal": 0, "error": 1, "budget": 2, "operator": 3}
    return sorted(needs, key=lambda need: (order.get(need.kind, 4), inf if need.since is None else need.since))


def parked_needs(schedule: Schedule, titles: Mapping[str, str], hide: Hide) -> Iterator[Need]:
    for parked in schedule.parked.values():
        yield Need(
            kind=parked.park.kind,
            text=hide(parked.park.reason),
            issue_id=parked.issue_id,
            identifier=parked.identifier,
            title=titles.get(parked.issue_id, ""),
            since=parked.since,
            can_answer=parked.park.kind != "budget",
            url=_url(schedule.issues.get(parked.issue_id), hide),
        )


def failed_tasks(db: Connection, schedule: Schedule, plan: Plan, hide: Hide) -> Iterator[Need]:
    """What else of a plan is left to people: those of its tasks that ask are parked."""
    if all(view.state != FAILED for view in schedule.issues.values()):
        return
    found = standings(plan, schedule, now=0.0)  # what waits for a time has not failed, whatever the time
    for name in left_to_people(plan, {name: standing.state for name, standing in found.items()}):
        if name not in schedule.parked:
            view, last = schedule.issues[name], history(db, name, limit=1)
            yield Need(
                kind="error",
                text=hide(found[name].note),
                issue_id=name,
                identifier=view.identifier,
                title=hide(view.title),
                since=_moment(last[0].completed_at) if last else None,
            )


def standstills(db: Connection, schedule: Schedule, rules: Policy | None, now: float, hide: Hide) -> Iterator[Need]:
    """What keeps more than one issue from starting until a person acts. An agent with which nobody works any more
    keeps none: the fault that it had stays on record, and no run will show that it is over."""
    usual = rules.provider if rules else ""
    in_use = {usual, *(view.provider or view.agent or usual for view in schedule.issues.values())}
    for name, pause in schedule.pauses.items():
        if pause.is_fault and (rules is None or name in in_use):
            text = f"The {name} agent cannot run: {hide(pause.detail)}"
            yield Need(kind="agent", text=text, since=pause.since or None)
    held = {issue_id: rule for issue_id, (rule, _) in schedule.skips.items() if rule in OUT_OF_BUDGET}
    if held:
        is_of_day = OUT_OF_BUDGET[0] in held.values()
        limit = "of the day" if is_of_day else "of all issues together"
        issues = "1 issue waits" if len(held) == 1 else f"{len(held):,} issues wait"
        # Rows that changed last come last, so those that are held longest are among the first.
        since = [at for issue_id in list(held)[:MOST_ASKED] if (at := skipped_at(db, issue_id)) is not None]
        begun = max(min(since), now - now % DAY if is_of_day else 0.0) if since else None
        yield Need(kind="out-of-budget", text=f"The budget {limit} is used up; {issues} for more.", since=begun)


def reviews(db: Connection, schedule: Schedule, policy: Policy, hide: Hide) -> list[Need]:
    """Issues that were handed over and have not been moved on since, the last first."""
    found: list[Need] = []
    for view in schedule.issues.values():
        last = history(db, view.id, limit=1) if policy.is_handoff(view.state) else []
        if not last or last[0].status != "succeeded":
            continue  # it was a person who moved it there
        need = Need(
            kind="review",
            text=hide(last[0].reason) or f"handed over to {view.state}",
            issue_id=view.id,
            identifier=view.identifier,
            title=hide(view.title),
            since=_moment(last[0].completed_at),
            url=_url(view, hide),
        )
        found.append(need)
    return sorted(found, key=lambda need: need.since or 0.0, reverse=True)


def _url(view: View | None, hide: Hide) -> str:
    return web_link(hide(view.url)) if view else ""


def _moment(stamped: str) -> float | None:
    try:
        return seconds_of(stamped)
    except ValueError:
        return None
