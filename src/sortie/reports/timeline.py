"""One issue: its present situation, and everything that happened to it as sentences, in pages from the newest."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any

import msgspec
from msgspec import Struct

from ..core.events import Level, kind_of
from ..core.narrate import RULES, narrate
from ..core.policy import Policy
from ..core.redact import Hide
from ..store.load import Loaded, look, snapshot
from ..store.queries import LoggedEvent, events, last_opened_for, last_policy, last_view
from .words import duration, is_plan, stamp, start_command, web_link

PAGE = 200
# The small steps are most of the log; of those that are left out only so many are passed over for one page.
MOST_READ = 5_000
_READ_AT_ONCE = (50, 500)


class Situation(Struct, frozen=True):
    """`state` is for programs: running, interrupted, parked, waiting, held-back, ready, released, unseen or
    unknown."""

    state: str
    sentence: str


class Entry(Struct, frozen=True, kw_only=True):
    """`event` is what was recorded, as programs read it."""

    seq: int
    time: str
    kind: str
    level: Level
    text: str
    run_id: str
    event: dict[str, Any]


class Timeline(Struct, frozen=True, kw_only=True):
    """`entries` are a page, the oldest first; with `more_before` as the next `before`, the page before it comes.
    `title` and `url` are what the tracker showed last, and so is `tracker_state`, unless it shows the issue no
    more; `url` is empty where it said no address of the web."""

    issue_id: str
    identifier: str
    title: str
    url: str
    tracker_state: str
    situation: Situation
    entries: list[Entry]
    more_before: int | None
    unreadable: list[str]


def timeline(
    db: Connection,
    issue_id: str,
    *,
    now: float,
    served: bool,
    hide: Hide,
    policy: Policy,
    before: int | None = None,
    limit: int = PAGE,
    everything: bool = False,
) -> Timeline:
    """`policy` counts where no service has said by which rules it works; `everything`: the small steps too."""
    with snapshot(db):
        known = look(db, issue_id=issue_id)
        known.schedule.policy = last_policy(db) or policy
        entries, more_before = entries_before(db, issue_id, before, limit, hide, everything=everything)
        identifier = _identifier(db, issue_id, known)
        view = known.schedule.issues.get(issue_id)
        shown = view or last_view(db, issue_id)
        owner = last_opened_for(db)
    situation = situation_of(issue_id, known, now, served=served, owner=owner)
    return Timeline(
        issue_id=issue_id,
        identifier=identifier,
        title=hide(shown.title) if shown else "",
        url=web_link(hide(shown.url)) if shown else "",
        tracker_state=view.state if view else "",
        situation=Situation(situation.state, hide(situation.sentence)),
        entries=entries,
        more_before=more_before,
        unreadable=known.unreadable,
    )


def entries_before(
    db: Connection, issue_id: str, before: int | None, limit: int, hide: Hide, *, everything: bool
) -> tuple[list[Entry], int | None]:
    """The last so many entries before this number, and where the ones before them end."""
    found: list[Entry] = []
    read, at_once = 0, min(max(3 * limit, _READ_AT_ONCE[0]), _READ_AT_ONCE[1])
    while len(found) < limit and read < MOST_READ:
        page = events(db, issue_id=issue_id, before_seq=before, limit=at_once, last=True)
        if not page:
            break
        read += len(page)
        for logged in reversed(page):
            before = logged.seq
            if everything or narrate(logged.event).level != "debug":
                found.append(entry_of(logged, hide))
                if len(found) == limit:
                    break
    is_more = events(db, issue_id=issue_id, before_seq=before, limit=1, last=True)
    return found[::-1], before if is_more else None


def entry_of(logged: LoggedEvent, hide: Hide) -> Entry:
    sentence = narrate(logged.event)
    return Entry(
        seq=logged.seq,
        time=stamp(logged.event.at),
        kind=kind_of(logged.event),
        level=sentence.level,
        text=hide(sentence.text),
        run_id=logged.event.run_id,
        event=_hidden(msgspec.to_builtins(logged.event), hide),
    )


def _hidden(value: Any, hide: Hide) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(inner, hide) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, hide) for inner in value]
    return hide(value) if isinstance(value, str) else value


def _identifier(db: Connection, issue_id: str, known: Loaded) -> str:
    schedule = known.schedule
    for part in (schedule.issues, schedule.running, schedule.waiting, schedule.parked):
        if found := part.get(issue_id):
            return found.identifier
    row = db.execute(
        "SELECT identifier FROM run_history WHERE issue_id = ? ORDER BY id DESC LIMIT 1", (issue_id,)
    ).fetchone()
    return str(row[0]) if row else issue_id


def situation_of(issue_id: str, loaded: Loaded, now: float, *, served: bool, owner: str = "") -> Situation:
    """What the store knows; `served` says whether a service runs, `owner` is the workflow or plan that it worked
    for."""
    schedule, start, of_plan = loaded.schedule, start_command(owner), is_plan(owner)
    if claim := schedule.running.get(issue_id):
        if served:
            return _running(claim.claimed_at, claim.attempt, claim.turn, claim.stop, now)
        what = f"attempt {claim.attempt}, turn {claim.turn}"
        return Situation("interrupted", f"It was running ({what}) when the service died; `{start}` resumes it.")
    if parked := schedule.parked.get(issue_id):
        free = f"`sortie unpark {parked.identifier}` frees it"
        if of_plan:
            free = f"`sortie plan retry {parked.identifier}`, `fix`, `skip` or `accept` decides"
        elif parked.park.kind == "signal":
            free += f", `sortie answer {parked.identifier} TEXT` too, and tells its agent"
        since, reason = stamp(parked.since), parked.park.reason.rstrip(".")
        return Situation("parked", f"It is parked since {since} because: {reason}; {free}.")
    idle = "" if served else f" The service is not running; `{start}` starts it."
    if waiting := schedule.waiting.get(issue_id):
        retry = waiting.retry
        if retry.kind == "held":
            hurry = f"`sortie {'plan ' if of_plan else ''}retry {waiting.identifier}` tries it at once"
            return Situation("waiting", f"Its agent cannot run: {retry.error.rstrip('.')}; {hurry}.{idle}")
        left = f" (in {duration(retry.due_at - now)})" if retry.due_at > now else " (due)"
        why = f"{retry.kind}: {retry.error}" if retry.error else retry.kind
        return Situation("waiting", f"It waits until {stamp(retry.due_at)}{left} for its next try, {why}.{idle}")
    if issue_id not in schedule.issues:
        gone = "the plan does not have it" if of_plan else "the tracker does not show it among the active issues"
        return Situation("released", f"Nothing is to be done: {gone} any more.")
    state = schedule.issues[issue_id].state
    if not schedule.policy.is_active(state):
        return Situation("released", f"Nothing is to be done: it is in {state}, which is not an active state.")
    if issue_id in schedule.skips:
        rule, detail = schedule.skips[issue_id]
        because = f"{RULES.get(rule, rule)}: {detail.rstrip('.')}" if detail else RULES.get(rule, rule)
        return Situation("held-back", f"It has not started because {because}.{idle}")
    when = "as soon as there is a slot" if of_plan else "at the next poll of the tracker"
    return Situation("ready", f"It is ready and starts {when}.{idle}")


def _running(since: float, attempt: int, turn: int, stop: str, now: float) -> Situation:
    what = f"attempt {attempt}, turn {turn}"
    ending = f", and is being stopped ({stop})" if stop else ""
    return Situation("running", f"It is running since {stamp(since)} ({duration(now - since)}), {what}{ending}.")
