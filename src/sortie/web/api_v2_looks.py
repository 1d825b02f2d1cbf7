"""What `/api/v2` answers to who only looks: issues, runs, events; from the reports that people read."""

from __future__ import annotations

import time
from sqlite3 import Connection
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from ..core.events import Level, kind_of
from ..core.narrate import RULES, narrate
from ..reports.needs import Need
from ..reports.run_detail import RunDetail, run_detail
from ..reports.runs import LARGEST_PAGE, RunRow, RunsPage, Sort, runs_of_issue, runs_page
from ..reports.status import Running, Status
from ..reports.timeline import Situation, Timeline, timeline
from ..reports.transcript import Transcript, transcript
from ..reports.usage import Amount, usage_of_issue
from ..runs.prompt_log import Prompt, kept_prompts, prompts_path
from ..runs.run_log import log_path
from ..store.load import snapshot
from ..store.queries import LoggedEvent, events, find_issue
from .json_api import Problem
from .operation import MOST_NAME, MOST_NUMBER, Asked, NoParameters
from .site import Site

RUNS_SHOWN = 50
MOST_EVENTS = 1000

Count = Annotated[int, Meta(ge=1, le=MOST_EVENTS)]
Number = Annotated[int, Meta(ge=0, le=MOST_NUMBER)]
Page = Annotated[int, Meta(ge=1, le=1_000_000)]
PageSize = Annotated[int, Meta(ge=1, le=LARGEST_PAGE)]
Name = Annotated[str, Meta(max_length=MOST_NAME)]
Standing = Literal["running", "waiting", "parked", "ready", "held-back"]


class IssuesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    situation: Standing | None = None
    page: Page = 1
    size: PageSize = 100


class WhyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before` is the `more_before` of a page; `all` shows the small steps too."""

    before: Number | None = None
    limit: Count = 200
    all: bool = False


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issue: Name = ""
    status: Literal["", "succeeded", "failed", "timed_out", "stalled", "cancelled"] = ""
    agent: Name = ""
    model: Name = ""
    text: Name = ""
    sort: Sort = "ended"
    descending: bool = True
    page: Page = 1
    size: PageSize = 50


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after` and `before` are places in the log, as an answer names them; without either, its end."""

    after: Name = ""
    before: Name = ""
    limit: Count = 500


class EventsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Number = 0
    limit: Count = 100
    issue: Name = ""


class IssueRow(Struct, frozen=True, kw_only=True):
    """`detail` is why it is where it is: its last line, the error, the question, or the rule that holds it."""

    issue_id: str
    identifier: str
    title: str
    situation: Standing
    detail: str


class IssuesPage(Struct, frozen=True, kw_only=True):
    rows: list[IssueRow]
    page: int
    size: int
    total: int
    counts: dict[str, int]


class IssueAnswer(Struct, frozen=True, kw_only=True):
    """`need` is what it waits for from a person, `running` its run that goes on, `runs` its last finished ones."""

    issue_id: str
    identifier: str
    title: str
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


class PromptsAnswer(Struct, frozen=True, kw_only=True):
    prompts: list[Prompt]


class EventsAnswer(Struct, frozen=True, kw_only=True):
    """Ask again with `next` as `after`; `last` is the number of the newest event there is."""

    events: list[EventRow]
    next: int
    last: int


def issue_meant(db: Connection, text: str) -> str:
    """The id of the issue that an id or an identifier means."""
    issue_id = find_issue(db, text)
    if issue_id is None:
        raise Problem(404, "issue_not_found", f"{text} is not known here.")
    return issue_id


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
    counts = {name: sum(row.situation == name for row in everything) for name in get_args(Standing)}
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
    def row(item: Any, situation: Standing, detail: str) -> IssueRow:
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
        told = _timeline(site, db, issue_id, WhyQuery(limit=1))
        now = site.status(db)
        return IssueAnswer(
            issue_id=issue_id,
            identifier=told.identifier,
            title=told.title,
            tracker_state=told.tracker_state,
            situation=told.situation,
            need=next((need for need in now.needs_person if need.issue_id == issue_id), None),
            running=next((run for run in now.running if run.issue_id == issue_id), None),
            used=usage_of_issue(db, issue_id),
            runs=runs_of_issue(db, issue_id, hide=site.hide, limit=RUNS_SHOWN),
        )


def why(asked: Asked[WhyQuery, None]) -> Timeline:
    with asked.site.looking() as db, snapshot(db):
        return _timeline(asked.site, db, issue_meant(db, asked.named["identifier"]), asked.query)


def _timeline(site: Site, db: Connection, issue_id: str, query: WhyQuery) -> Timeline:
    return timeline(
        db,
        issue_id,
        now=time.time(),
        served=site.is_served,
        hide=site.hide,
        policy=site.config.policy(),
        before=query.before,
        limit=query.limit,
        everything=query.all,
    )


def runs(asked: Asked[RunsQuery, None]) -> RunsPage:
    query = asked.query
    with asked.site.looking() as db:
        issue_id = issue_meant(db, query.issue) if query.issue else None
        wanted: Any = {**asdict(query), "issue": issue_id}
        return runs_page(db, hide=asked.site.hide, **wanted)


def run(asked: Asked[NoParameters, None]) -> RunDetail:
    with asked.site.looking() as db:
        return _run(asked.site, db, asked.named["run_id"])


def _run(site: Site, db: Connection, run_id: str) -> RunDetail:
    found = run_detail(db, run_id, hide=site.hide)
    if found is None:
        raise Problem(404, "run_not_found", f"There is no run {run_id}.")
    return found


def log(asked: Asked[LogQuery, None]) -> Transcript:
    site, query, run_id = asked.site, asked.query, asked.named["run_id"]
    with site.looking() as db:
        _run(site, db, run_id)  # only what is on record names a file
    if query.after and query.before:
        raise Problem(400, "invalid_parameter", "Name one of after and before.")
    found = transcript(log_path(site.database, run_id), after=query.after, before=query.before, limit=query.limit)
    lines = [replace(line, text=site.hide(line.text)) for line in found.lines]
    return replace(found, lines=lines)


def prompts(asked: Asked[NoParameters, None]) -> PromptsAnswer:
    site, run_id = asked.site, asked.named["run_id"]
    with site.looking() as db:
        _run(site, db, run_id)
    return PromptsAnswer(prompts=kept_prompts(prompts_path(site.database, run_id), site.hide))


def events_after(asked: Asked[EventsQuery, None]) -> EventsAnswer:
    site, query = asked.site, asked.query
    with site.looking() as db, snapshot(db):
        issue_id = issue_meant(db, query.issue) if query.issue else None
        found = events(db, issue_id=issue_id, after_seq=query.after, limit=query.limit)
        (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
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
