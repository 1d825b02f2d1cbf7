"""`tracker_api`: checks what the agent asks, does it within the project, answers in the documented form.

Whatever happens, the answer is an envelope; the tracker's key is in none.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any, NamedTuple

import anyio

from ..core.model import Issue
from ..errors import TrackerError
from ..trackers.rate_limits import for_a_tool
from ..trackers.tracker import Tracker, TrackerSettings
from ..workflow.config import Config
from . import envelope
from .definitions import OPERATIONS, TRANSITION
from .issue_record import record, records

DEADLINE = 30.0

_NAMES_ITS_PROJECT = re.compile(r"(.+)[#-][0-9]+")


class Refusal(Exception):
    """The agent asked for something it cannot have; the tracker was not changed."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Reach(NamedTuple):
    """Which issues may be moved: `transitions` as in the workflow, `issue_id` is that of the session."""

    transitions: str = "project"
    issue_id: str = ""


WHOLE_PROJECT = Reach()


class Order(NamedTuple):
    operation: str = ""
    issue_id: str = ""
    target_state: str = ""


async def handle(
    arguments: object,
    tracker: Tracker,
    settings: TrackerSettings,
    reach: Reach = WHOLE_PROJECT,
    *,
    deadline: float = DEADLINE,
    has_tracker_alone: bool = False,
) -> dict[str, Any]:
    """One call of the tool, from its arguments to its answer; never raises but for a cancellation.

    Where others ask the same tracker object, tools have a share of its calls; else `has_tracker_alone`.
    """
    try:
        order = _read_order(arguments)
        with anyio.fail_after(deadline), nullcontext() if has_tracker_alone else for_a_tool():
            answer = envelope.success(await _perform(order, tracker, settings.project, reach))
    except Refusal as refusal:
        answer = envelope.failure(refusal.kind, str(refusal))
    except TrackerError as error:
        kind = error.kind if error.kind in envelope.TRACKER_KINDS else envelope.API_ERROR
        answer = envelope.failure(kind, str(error))
    except TimeoutError:
        answer = envelope.failure(envelope.TRANSPORT_ERROR, f"The tracker did not answer within {deadline:g} s.")
    except ConnectionError as error:
        answer = envelope.failure(envelope.TRANSPORT_ERROR, f"The tracker cannot be reached: {error}.")
    except Exception as error:
        answer = envelope.unexpected(error)
    redacted: dict[str, Any] = envelope.redacted(answer, [settings.api_key])
    return redacted


def _read_order(arguments: object) -> Order:
    """What is asked for; `Refusal` where it cannot be made out."""
    if not isinstance(arguments, dict):
        raise Refusal(envelope.INVALID_INPUT, "The arguments must be a JSON object.")
    for name, value in arguments.items():
        if name not in Order._fields:
            known = ", ".join(Order._fields)
            raise Refusal(envelope.INVALID_INPUT, f'There is no field "{name}". Use only: {known}.')
        if not isinstance(value, str):
            raise Refusal(envelope.INVALID_INPUT, f"{name} must be a string.")
    order = Order(**arguments)
    if not order.operation:
        raise Refusal(envelope.INVALID_INPUT, "operation is missing.")
    if order.operation not in OPERATIONS:
        problem = f'There is no operation "{order.operation}". Use one of: {", ".join(OPERATIONS)}.'
        raise Refusal(envelope.UNSUPPORTED_OPERATION, problem)
    if order.operation != "search_issues" and not order.issue_id.strip():
        raise Refusal(envelope.INVALID_INPUT, f"{order.operation} needs issue_id.")
    if order.operation == TRANSITION and not order.target_state.strip():
        raise Refusal(envelope.INVALID_INPUT, f"{TRANSITION} needs target_state.")
    return order


async def _perform(order: Order, tracker: Tracker, project: str, reach: Reach) -> Any:
    match order.operation:
        case "fetch_issue":
            return record(await _fetch_in_scope(order.issue_id, tracker, project))
        case "fetch_comments":
            return record(await _fetch_in_scope(order.issue_id, tracker, project))["comments"] or []
        case "search_issues":
            found = (await tracker.fetch_candidates()).issues
            return records([issue for issue in found if belongs(issue.identifier, project)])
        case _:
            await _check_reach(order.issue_id, tracker, project, reach)
            await tracker.transition(order.issue_id, order.target_state)
            return {"transitioned": True}


async def _check_reach(issue_id: str, tracker: Tracker, project: str, reach: Reach) -> None:
    """Before anything is changed: whether this session may move this issue at all."""
    if reach.transitions == "none":
        problem = "Agents move no issues here: the workflow says tools.transitions: none."
        raise Refusal(envelope.UNSUPPORTED_OPERATION, problem)
    if project or reach.transitions == "own":
        # Asked for its own id: a tracker may know an issue by several names.
        issue = await _fetch_in_scope(issue_id, tracker, project)
        if reach.transitions == "own" and issue.id != reach.issue_id:
            problem = "is not the one of this session, and the workflow says tools.transitions: own."
            raise Refusal(envelope.PROJECT_SCOPE_VIOLATION, f"Issue {issue_id} {problem}")


async def _fetch_in_scope(issue_id: str, tracker: Tracker, project: str) -> Issue:
    issue = await tracker.fetch_issue(issue_id)
    if not belongs(issue.identifier, project):
        problem = f'Issue {issue_id} does not belong to the project "{project}".'
        raise Refusal(envelope.PROJECT_SCOPE_VIOLATION, problem)
    return issue


def belongs(identifier: str, project: str) -> bool:
    """Whether `PROJ-42` or `owner/repo#42` is of this project; without a project everything is.

    An identifier of any other form names no project, so it is of none.
    """
    named = _NAMES_ITS_PROJECT.fullmatch(identifier)
    return not project or (named is not None and named[1].casefold() == project.casefold())


def tracker_settings(config: Config) -> TrackerSettings:
    """What the workflow says about its tracker, in the tracker's own words."""
    tracker = config.tracker
    return TrackerSettings(
        kind=tracker.kind,
        active_states=tracker.active_states,
        terminal_states=tracker.terminal_states,
        handoff_state=tracker.handoff_state,
        in_progress_state=tracker.in_progress_state,
        endpoint=tracker.endpoint,
        api_key=tracker.api_key,
        project=tracker.project,
        query_filter=tracker.query_filter,
        failed_states=tracker.failed_states,
        trusted_authors=tracker.trusted_authors,
        excluded_authors=tracker.excluded_authors,
        calls_per_minute=tracker.calls_per_minute,
        options=config.options.get(tracker.kind, {}),
        base=config.base,
    )
