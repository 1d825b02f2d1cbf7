"""`/issues/…`: one issue: its situation, timeline, transcript, changes and cost."""

from __future__ import annotations

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ...core.schedule import Schedule
from ...protocol.web_address import issue_path
from ...reports.issue_search import issues_with
from ...reports.run_detail import RunDetail, latest_run
from ...reports.runs import RunRow, runs_of_issue
from ...reports.timeline import Timeline
from ...reports.transcript import Transcript
from ...reports.usage import Amount, spent_on_issue, usage_of_issue
from ...store.load import look
from ...store.queries import find_issue
from .. import show
from ..changed_files import Seen
from ..render import page
from ..site import Site
from .errors import error_page
from .parts import MOST_TEXT, Bar, PromptsTold, bars, number_in, prompts_told

ENTRIES = 60
SAID = 150
RUNS = 20
LONGEST_SOUGHT = 200


class About(Struct, frozen=True, kw_only=True):
    """Everything that is shown of an issue. `last` is its latest run, `verbs` what a person can decide about it."""

    story: Timeline
    everything: bool
    before: int
    used: Amount
    bars: list[Bar]
    runs: list[RunRow]
    last: RunDetail | None
    told: PromptsTold | None
    park_kind: str
    parked_at: float | None
    question: str
    verbs: tuple[str, ...]
    said: Transcript | None
    seen: Seen | None


def routes(site: Site) -> list[BaseRoute]:
    def issue_page(request: Request) -> Response:
        named = request.path_params["identifier"] or request.query_params.get("named")
        if named is None:
            return RedirectResponse("/")
        about = about_issue(site, request, named)
        if about is not None and site.is_plan:
            return RedirectResponse(show.task_path(about.story.identifier))
        if about is not None and not request.path_params["identifier"] and named != about.story.identifier:
            return RedirectResponse(issue_path(about.story.identifier))
        if about is None and named.strip() and not request.path_params["identifier"]:
            return _found(site, request, named.strip()[:LONGEST_SOUGHT])
        if about is None:
            return error_page(site, request, 404, f"{named or 'An issue without a name'} is not known here.")
        return page(site, request, "issue.html", about=about)

    return [Route("/issues/{identifier:path}", issue_page, methods=["GET"])]


def _found(site: Site, request: Request, sought: str) -> Response:
    """The issue that a text in the search field may mean."""
    with site.looking() as db:
        found = issues_with(db, sought, hide=site.hide)
    called = [one for one in found if one.identifier.casefold() == sought.casefold()]
    if len(called) == 1:
        return RedirectResponse(issue_path(called[0].identifier))
    return page(site, request, "found.html", status=200 if found else 404, sought=sought, found=found)


def about_issue(site: Site, request: Request, named: str) -> About | None:
    """None where the store knows nothing of it."""
    asked = request.query_params
    before, everything = number_in(asked.get("before"), 0), "all" in asked
    with site.looking() as db:
        issue_id = find_issue(db, named) or find_issue(db, named.strip())
        if issue_id is None:
            return None
        story = site.story(db, issue_id, limit=ENTRIES, before=before or None, everything=everything)
        schedule = look(db, issue_id=issue_id).schedule
        last, spent, rules = latest_run(db, issue_id, hide=site.hide), spent_on_issue(db, issue_id), site.rules(db)
        used = usage_of_issue(db, issue_id)
        runs = runs_of_issue(db, issue_id, hide=site.hide, limit=RUNS)
    parked = schedule.parked.get(issue_id)
    prompts = site.prompts(last.run_id) if last else []
    return About(
        story=story,
        everything=everything,
        before=before,
        used=used,
        bars=bars(spent, rules.per_issue if rules else None),
        runs=runs,
        last=last,
        told=prompts_told(last.run_id, prompts) if last and prompts else None,
        park_kind=parked.park.kind if parked else "",
        parked_at=parked.since if parked else None,
        question=site.hide(parked.park.reason) if parked else "",
        verbs=verbs_for(schedule, issue_id),
        said=site.transcript(last.run_id, limit=SAID, most=MOST_TEXT) if last else None,
        seen=site.changed_files.of(last),
    )


def verbs_for(schedule: Schedule, issue_id: str) -> tuple[str, ...]:
    """What a person can decide about it now; the service has the last word."""
    if claim := schedule.running.get(issue_id):
        return () if claim.stop else ("stop", "answer")
    if parked := schedule.parked.get(issue_id):
        return ("unpark",) if parked.park.kind == "budget" else ("answer", "unpark")
    if issue_id in schedule.waiting:
        return ("retry", "stop")
    return ("start",)
