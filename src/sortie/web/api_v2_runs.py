"""The runs of `/api/v2`: finished runs, one run in detail, its transcript and its prompts."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from ..core.model import RunStatus
from ..reports.run_detail import RunDetail, run_detail
from ..reports.runs import RunsPage, Sort, runs_page
from ..reports.transcript import Transcript
from ..runs.prompt_log import Prompt
from ..store.queries import is_run
from .api_v2_parameters import Count, Name, Page, PageSize, issue_meant
from .json_api import Problem
from .operation import Asked, NoParameters
from .site import Site


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issue: Name = ""
    status: Literal["", RunStatus] = ""
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


class PromptsAnswer(Struct, frozen=True, kw_only=True):
    prompts: list[Prompt]


def runs(asked: Asked[RunsQuery, None]) -> RunsPage:
    query = asked.query
    with asked.site.looking() as db:
        issue_id = issue_meant(db, query.issue) if query.issue else None
        wanted: Any = {**asdict(query), "issue": issue_id}
        return runs_page(db, hide=asked.site.hide, **wanted)


def run(asked: Asked[NoParameters, None]) -> RunDetail:
    run_id = asked.named["run_id"]
    with asked.site.looking() as db:
        found = run_detail(db, run_id, hide=asked.site.hide)
    if found is None:
        raise _unknown(run_id)
    return found


def _require_run(site: Site, run_id: str) -> None:
    """Only what is on record names a file."""
    with site.looking() as db:
        if not is_run(db, run_id):
            raise _unknown(run_id)


def _unknown(run_id: str) -> Problem:
    return Problem(404, "run_not_found", f"There is no run {run_id}.")


def log(asked: Asked[LogQuery, None]) -> Transcript:
    site, query, run_id = asked.site, asked.query, asked.named["run_id"]
    _require_run(site, run_id)
    if query.after and query.before:
        raise Problem(400, "invalid_parameter", "Name one of after and before.")
    return site.transcript(run_id, after=query.after, before=query.before, limit=query.limit)


def prompts(asked: Asked[NoParameters, None]) -> PromptsAnswer:
    site, run_id = asked.site, asked.named["run_id"]
    _require_run(site, run_id)
    return PromptsAnswer(prompts=site.prompts(run_id))
