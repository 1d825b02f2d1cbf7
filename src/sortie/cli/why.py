"""`sortie why`: where an issue stands, then everything that happened to it, in order, as sentences.

The store is asked first; the tracker only about what the store does not know, or has let go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from ..core.events import kind_of
from ..core.narrate import RULES, narrate
from ..core.redact import Redactor
from ..errors import SortieError, TrackerError
from ..store.load import Loaded, look
from ..store.lock import holder_of
from ..store.queries import LoggedEvent, events, find_issue, last_policy
from ..workflow.config import Config
from .format import clean, duration, runnable, stamp
from .main import DONE, FAILED
from .printing import json_option, print_json
from .store_access import TRACKER_DEADLINE, complain, load_config, looking_at, workflow_option

if TYPE_CHECKING:
    from ..core.model import Issue
    from ..trackers.tracker import Tracker

EVENTS_SHOWN = 1000


class Situation(Struct, frozen=True):
    """`state` is for programs: running, parked, waiting, held-back, ready, released, unseen or unknown."""

    state: str
    sentence: str


@click.command("why")
@click.argument("issue")
@click.option("--all", "everything", is_flag=True, help="Show the small steps too.")
@workflow_option
@json_option
def why_command(issue: str, everything: bool, workflow: Path, as_json: bool) -> int:
    """Explain an issue: where it stands now, and every start, stop, skip and retry that led there."""
    config = load_config(workflow)
    situation, events = look_up(config, issue)
    if not everything:
        events = [entry for entry in events if narrate(entry.event).level != "debug"]
    hide = Redactor(config.secrets).text
    if as_json:
        told = {"state": situation.state, "text": hide(situation.sentence)}
        print_json({"issue": issue, "situation": told, "events": [plain_event(entry, hide) for entry in events]})
    else:
        click.echo(clean(runnable(hide(situation.sentence))))
        for entry in events:
            click.echo(f"{stamp(entry.event.at)}  {clean(hide(narrate(entry.event).text))}")
    return FAILED if situation.state == "unknown" else DONE


def look_up(config: Config, issue: str) -> tuple[Situation, list[LoggedEvent]]:
    """Where the issue stands, and its story; what the store has let go is where the tracker says."""
    situation, events = _look_up(config, issue)
    if situation.state == "released":
        with suppress(SortieError):
            told = _ask_tracker(config, issue)
            if told.state != "unknown":
                situation = Situation("released", told.sentence)
    return situation, events


def _look_up(config: Config, issue: str) -> tuple[Situation, list[LoggedEvent]]:
    if config.db_path.exists():
        served = holder_of(config.db_path) is not None
        now = time.time()
        with looking_at(config) as db:
            if issue_id := find_issue(db, issue):
                known = look(db, issue_id=issue_id)
                for sentence in known.unreadable:
                    complain(sentence)
                known.schedule.policy = last_policy(db) or config.policy()
                situation = situation_of(issue_id, known, now, served=served)
                return situation, events(db, issue_id=issue_id, limit=EVENTS_SHOWN, last=True)
    return _ask_tracker(config, issue), []


def plain_event(entry: LoggedEvent, hide: Callable[[str], str]) -> dict[str, Any]:
    sentence = narrate(entry.event)
    return {
        "seq": entry.seq,
        "time": stamp(entry.event.at),
        "kind": kind_of(entry.event),
        "level": sentence.level,
        "text": hide(sentence.text),
        "run_id": entry.event.run_id,
        "event": _hidden(msgspec.to_builtins(entry.event), hide),
    }


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(inner, hide) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, hide) for inner in value]
    return hide(value) if isinstance(value, str) else value


def situation_of(issue_id: str, loaded: Loaded, now: float, *, served: bool) -> Situation:
    """What the store knows; `served` says whether a service runs."""
    schedule = loaded.schedule
    if claim := schedule.running.get(issue_id):
        return _running(claim.claimed_at, claim.attempt, claim.turn, claim.stop, now, served=served)
    if parked := schedule.parked.get(issue_id):
        free = f"`sortie unpark {parked.identifier}` frees it"
        since, reason = stamp(parked.since), parked.park.reason.rstrip(".")
        return Situation("parked", f"It is parked since {since} because: {reason}; {free}.")
    idle = "" if served else " The service is not running; `sortie run` starts it."
    if waiting := schedule.waiting.get(issue_id):
        retry = waiting.retry
        if retry.kind == "held":
            hurry = f"`sortie retry {waiting.identifier}` tries it at once"
            return Situation("waiting", f"Its agent cannot run: {retry.error.rstrip('.')}; {hurry}.{idle}")
        left = f" (in {duration(retry.due_at - now)})" if retry.due_at > now else " (due)"
        why = f"{retry.kind}: {retry.error}" if retry.error else retry.kind
        return Situation("waiting", f"It waits until {stamp(retry.due_at)}{left} for its next try, {why}.{idle}")
    if issue_id not in schedule.issues:
        return Situation(
            "released", "Nothing is to be done: the tracker does not show it among the active issues any more."
        )
    state = schedule.issues[issue_id].state
    if not schedule.policy.is_active(state):
        return Situation("released", f"Nothing is to be done: it is in {state}, which is not an active state.")
    if issue_id in schedule.skips:
        rule, detail = schedule.skips[issue_id]
        because = f"{RULES.get(rule, rule)}: {detail.rstrip('.')}" if detail else RULES.get(rule, rule)
        return Situation("held-back", f"It has not started because {because}.{idle}")
    return Situation("ready", f"It is ready and starts at the next look at the tracker.{idle}")


def _running(since: float, attempt: int, turn: int, stop: str, now: float, *, served: bool) -> Situation:
    what = f"attempt {attempt}, turn {turn}"
    if not served:
        return Situation("interrupted", f"It was running ({what}) when the service died; `sortie run` resumes it.")
    ending = f", and is being stopped ({stop})" if stop else ""
    return Situation("running", f"It is running since {stamp(since)} ({duration(now - since)}), {what}{ending}.")


def _ask_tracker(config: Config, text: str) -> Situation:
    """About an issue that the store has never seen, or has let go."""
    from ..sources.adapters import peek, with_every_state

    if not config.tracker.kind:  # a store whose source is not known here
        return Situation("unknown", f"{text} is not known here.")
    try:
        everything = peek(with_every_state(config))
        if everything is None:
            import anyio  # with the rest of what a tracker needs: a file is read without it

            return anyio.run(_asked, config, text)
        issue = next((one for one in everything.issues if text in (one.id, one.identifier)), None)
        if issue is None:
            return _unknown(config, text)
        is_active = config.policy().is_active(issue.state)
        return _unseen(text) if is_active else _inactive(text, issue)
    except TrackerError as error:
        if error.kind == TrackerError.NOT_FOUND:
            return _unknown(config, text)
        return Situation("unknown", f"{text} is not known here, and the tracker could not be asked: {error}")


def _unseen(text: str) -> Situation:
    return Situation("unseen", f"The tracker shows {text}, but no service has looked since; start `sortie run`.")


def _inactive(text: str, issue: Issue) -> Situation:
    return Situation("unseen", f"{text} is in {issue.state}, which is not an active state.")


def _unknown(config: Config, text: str) -> Situation:
    states = ", ".join(config.tracker.active_states) or "any but the terminal ones"
    sentence = f"{text} is not known to the tracker as an active issue (active states: {states})."
    return Situation("unknown", sentence)


async def _asked(config: Config, text: str) -> Situation:
    import anyio

    from ..sources.adapters import build_tracker

    tracker = build_tracker(config)
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            return await _look(tracker, config, text)
    except TimeoutError:
        return Situation("unknown", f"{text} is not known here, and the tracker did not answer.")
    finally:
        await tracker.aclose()


async def _look(tracker: Tracker, config: Config, text: str) -> Situation:
    from ..sources.adapters import find_issue

    candidates = await tracker.fetch_candidates()
    if any(text in (issue.id, issue.identifier) for issue in candidates.issues):
        return _unseen(text)
    issue = await find_issue(tracker, config, text)
    if config.policy().is_active(issue.state):
        return Situation("unseen", f"{text} is in {issue.state}, but the tracker does not offer it as work.")
    return _inactive(text, issue)
