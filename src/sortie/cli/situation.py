"""Where one issue stands, in one sentence: from the store first, from the tracker where the store knows nothing."""

from __future__ import annotations

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Issue
from ..core.narrate import RULES
from ..engine.adapters import build_tracker
from ..errors import TrackerError
from ..store.load import Loaded
from ..trackers.tracker import Tracker
from ..workflow.config import Config
from .format import duration, stamp

TRACKER_DEADLINE = 30.0


class Situation(Struct, frozen=True):
    """`state` is for programs: running, parked, waiting, held-back, ready, released, unseen or unknown."""

    state: str
    sentence: str


def situation_of(issue_id: str, loaded: Loaded, now: float, *, served: bool) -> Situation:
    """What the store knows; `served` says whether a service runs."""
    for claim in loaded.claims:
        if claim.issue_id == issue_id:
            return _running(claim.claimed_at, claim.attempt, claim.turn, claim.stop_cause, now, served=served)
    for parked in loaded.parked:
        if parked.issue_id == issue_id:
            free = f"`sortie unpark {parked.identifier}` frees it"
            return Situation(
                "parked", f"It is parked since {stamp(parked.since)} because: {parked.reason.rstrip('.')}; {free}."
            )
    idle = "" if served else " The service is not running; `sortie run` starts it."
    for retry in loaded.retries:
        if retry.issue_id == issue_id and retry.kind == "held":
            hurry = f"`sortie retry {retry.identifier}` tries it at once"
            return Situation("waiting", f"Its agent cannot run: {retry.error.rstrip('.')}; {hurry}.{idle}")
        if retry.issue_id == issue_id:
            left = f" (in {duration(retry.due_at - now)})" if retry.due_at > now else " (due)"
            why = f"{retry.kind}: {retry.error}" if retry.error else retry.kind
            return Situation(
                "waiting", f"It waits until {stamp(retry.due_at)}{left} for its next try, {why}.{idle}"
            )
    if issue_id not in loaded.issues:
        return Situation(
            "released", "Nothing is to be done: the tracker does not show it among the active issues any more."
        )
    if issue_id in loaded.skips:
        rule, detail = loaded.skips[issue_id]
        because = f"{RULES.get(rule, rule)}: {detail.rstrip('.')}" if detail else RULES.get(rule, rule)
        return Situation("held-back", f"It has not started because {because}.{idle}")
    return Situation("ready", f"It is ready and starts at the next look at the tracker.{idle}")


def _running(since: float, attempt: int, turn: int, stop: str, now: float, *, served: bool) -> Situation:
    what = f"attempt {attempt}, turn {turn}"
    if not served:
        return Situation("interrupted", f"It was running ({what}) when the service died; `sortie run` resumes it.")
    ending = f", and is being stopped ({stop})" if stop else ""
    return Situation("running", f"It is running since {stamp(since)} ({duration(now - since)}), {what}{ending}.")


async def ask_tracker(config: Config, text: str) -> Situation:
    """About an issue that the store has never seen."""
    tracker = build_tracker(config)
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            return await _look(tracker, config, text)
    except TimeoutError:
        return Situation("unknown", f"{text} is not known here, and the tracker did not answer.")
    except TrackerError as error:
        if error.kind == TrackerError.NOT_FOUND:
            states = ", ".join(config.tracker.active_states) or "any but the terminal ones"
            return Situation(
                "unknown", f"{text} is not known to the tracker as an active issue (active states: {states})."
            )
        return Situation("unknown", f"{text} is not known here, and the tracker could not be asked: {error}")
    finally:
        await tracker.aclose()


async def _look(tracker: Tracker, config: Config, text: str) -> Situation:
    candidates = await tracker.fetch_candidates()
    if any(text in (issue.id, issue.identifier) for issue in candidates.issues):
        return Situation(
            "unseen", f"The tracker shows {text}, but no service has looked since; start `sortie run`."
        )
    issue = await _find(tracker, config, text)
    if config.policy().is_active(issue.state):
        return Situation("unseen", f"{text} is in {issue.state}, but the tracker does not offer it as work.")
    return Situation("unseen", f"{text} is in {issue.state}, which is not an active state.")


async def _find(tracker: Tracker, config: Config, text: str) -> Issue:
    """By id; else by the name people use, which is looked for among all that is in the tracker."""
    try:
        return await tracker.fetch_issue(text)
    except TrackerError as error:
        if error.kind != TrackerError.NOT_FOUND:
            raise
        every_state = replace(config.tracker, active_states=(), terminal_states=())
        everything = build_tracker(replace(config, tracker=every_state))
        try:
            for issue in (await everything.fetch_candidates()).issues:
                if issue.identifier == text:
                    return issue
        finally:
            await everything.aclose()
        raise
