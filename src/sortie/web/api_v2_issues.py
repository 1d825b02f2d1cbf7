"""The issues of `/api/v2`: status, inbox, lists, one issue with its timeline and changes, the event log."""

from __future__ import annotations

from typing import Any, Literal, get_args

from msgspec import Struct

from ..core.events import Level, kind_of
from ..core.narrate import RULES, narrate
from ..reports.changes import WorkspaceChanges
from ..reports.needs import Need
from ..reports.run_detail import latest_run
from ..reports.runs import RunRow, runs_of_issue
from ..reports.status import Running, Status
from ..reports.timeline import Situation, Timeline
from ..reports.usage import Amount, usage_of_issue
from ..store.load import snapshot
from ..store.queries import LoggedEvent, events, last_seq
from .api_v2_parameters import Count, Name, Number, Page, PageSize, issue_meant
from .operation import Asked, NoParameters
from .site import Site

RUNS_SHOWN = 50

ListedSituation = Literal["running", "waiting", "parked", "ready", "held-back"]


class IssuesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    situation: ListedSituation | None = None
    page: Page = 1
    size: PageSize = 100


class WhyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before` is the `more_before` of a page; `all` shows the small steps too."""

    before: Number | None = None
    limit: Count = 200
    all: bool = False


class EventsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Number = 0
    limit: Count = 100
    issue: Name = ""


class IssueRow(Struct, frozen=True, kw_only=True):
    """`detail` is why it is where it is: its last line, the error, the question, or the rule that holds it."""

    issue_id: str
    identifier: str
    title: str
    situation: ListedSituation
    detail: str


class IssuesPage(Struct, frozen=True, kw_only=True):
    rows: list[IssueRow]
    page: int
    size: int
    total: int
    counts: dict[str, int]


class IssueAnswer(Struct, frozen=True, kw_only=True):
    """`need` is what it waits for from a person, `running` its run that goes on, `runs` its last finished ones;
    `url` is where the tracker shows it, if that is known."""

    issue_id: str
    identifier: str
    title: str
    url: str
    tracker_state: str
    situation: Situation
    need: Need | None
    running: Running | None
    used: Amount
    runs: list[RunRow]


class Inbox(Struct, frozen=True):
    now: float
    needs_person: list[Need]


class EventRow(Struct, frozen=True, kw_only=True):
    seq: int
    at: float
    kind: str
    level: Level
    text: str
    issue_id: str
    run_id: str


class EventsAnswer(Struct, frozen=True, kw_only=True):
    """Ask again with `next` as `after`; `last` is the number of the newest event there is."""

    events: list[EventRow]
    next: int
    last: int


def status(asked: Asked[NoParameters, None]) -> Status:
    with asked.site.looking() as db:
        return asked.site.status(db)


def inbox(asked: Asked[NoParameters, None]) -> Inbox:
    with asked.site.looking() as db:
        found = asked.site.status(db)
    return Inbox(found.now, found.needs_person)


def issues(asked: Asked[IssuesQuery, None]) -> IssuesPage:
    query = asked.query
    with asked.site.looking() as db:
        everything = _rows(asked.site.status(db))
    counts = {name: sum(row.situation == name for row in everything) for name in get_args(ListedSituation)}
    rows = [row for row in everything if query.situation in (None, row.situation)]
    first = (query.page - 1) * query.size
    return IssuesPage(
        rows=rows[first : first + query.size],
        page=query.page,
        size=query.size,
        total=len(rows),
        counts=counts,
    )


def _rows(found: Status) -> list[IssueRow]:
    def row(item: Any, situation: ListedSituation, detail: str) -> IssueRow:
        return IssueRow(
            issue_id=item.issue_id,
            identifier=item.identifier,
            title=item.title,
            situation=situation,
            detail=detail,
        )

    return [
        *(row(item, "running", item.last_line) for item in found.running),
        *(row(item, "waiting", item.error) for item in found.retrying),
        *(row(item, "parked", item.reason) for item in found.parked),
        *(row(item, "ready", _rule(item.rule, item.detail)) for item in found.ready),
        *(row(item, "held-back", _rule(item.rule, item.detail)) for item in found.held_back),
    ]


def _rule(rule: str, detail: str) -> str:
    words = RULES.get(rule, rule)
    return f"{words}: {detail}" if words and detail else words


def issue(asked: Asked[NoParameters, None]) -> IssueAnswer:
    site = asked.site
    with site.looking() as db, snapshot(db):
        issue_id = issue_meant(db, asked.named["identifier"])
        told = site.story(db, issue_id, limit=1)
        now = site.status(db)
        return IssueAnswer(
            issue_id=issue_id,
            identifier=told.identifier,
            title=told.title,
            url=told.url,
            tracker_state=told.tracker_state,
            situation=told.situation,
            need=next((need for need in now.needs_person if need.issue_id == issue_id), None),
            running=next((run for run in now.running if run.issue_id == issue_id), None),
            used=usage_of_issue(db, issue_id),
            runs=runs_of_issue(db, issue_id, hide=site.hide, limit=RUNS_SHOWN),
        )


def why(asked: Asked[WhyQuery, None]) -> Timeline:
    query = asked.query
    with asked.site.looking() as db, snapshot(db):
        issue_id = issue_meant(db, asked.named["identifier"])
        return asked.site.story(db, issue_id, limit=query.limit, before=query.before, everything=query.all)


def changes(asked: Asked[NoParameters, None]) -> WorkspaceChanges:
    """In the workspace of the run that goes on, or of the one that ended last."""
    with asked.site.looking() as db:
        issue_id = issue_meant(db, asked.named["identifier"])
        last = latest_run(db, issue_id, hide=asked.site.hide)
    if seen := asked.site.changed_files.of(last):
        return seen.changes
    has_one = last and last.workspace
    problem = "Its last run is on another host." if has_one else "Its last run has no workspace yet."
    return WorkspaceChanges(kind="unknown", workspace="", problem=problem)


def events_after(asked: Asked[EventsQuery, None]) -> EventsAnswer:
    site, query = asked.site, asked.query
    with site.looking() as db, snapshot(db):
        issue_id = issue_meant(db, query.issue) if query.issue else None
        found = events(db, issue_id=issue_id, after_seq=query.after, limit=query.limit)
        last = last_seq(db)
    rows = [_event_row(site, one) for one in found]
    return EventsAnswer(events=rows, next=rows[-1].seq if rows else query.after, last=last)


def _event_row(site: Site, logged: LoggedEvent) -> EventRow:
    event, sentence = logged.event, narrate(logged.event)
    return EventRow(
        seq=logged.seq,
        at=event.at,
        kind=kind_of(event),
        level=sentence.level,
        text=site.hide(sentence.text),
        issue_id=event.issue_id,
        run_id=event.run_id,
    )
