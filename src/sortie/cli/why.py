"""`sortie why`: where an issue stands, then everything that happened to it, in order, as sentences.

The store is asked first; the tracker only about what the store does not know, or has let go.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.redact import Redactor
from ..errors import ConfigurationError, SortieError, TrackerError
from ..reports.timeline import Entry, Situation, timeline
from ..store.lock import holder_of
from ..store.queries import find_issue
from ..workflow.config import Config
from .format import clean, runnable
from .main import DONE, FAILED
from .printing import json_option, print_json
from .store_access import TRACKER_DEADLINE, complain, load_checked, load_config, looking_at, workflow_option
from .ticker import told_when_slow

if TYPE_CHECKING:
    from ..core.model import Issue
    from ..trackers.tracker import Tracker

EVENTS_SHOWN = 1000


@click.command("why")
@click.argument("issue")
@click.option("--all", "everything", is_flag=True, help="Show the small steps too.")
@workflow_option
@json_option
def why_command(issue: str, everything: bool, workflow: Path, as_json: bool) -> int:
    """Explain an issue: where it stands now, and every start, stop, skip and retry that led there."""
    config = load_config(workflow)
    situation, entries = look_up(config, issue, everything=everything)
    sentence = Redactor(config.secrets).text(situation.sentence)
    if as_json:
        told = {"state": situation.state, "text": sentence}
        print_json({"issue": issue, "situation": told, "events": entries})
    else:
        click.echo(clean(runnable(sentence)))
        for entry in entries:
            click.echo(f"{entry.time}  {clean(entry.text)}")
    return FAILED if situation.state == "unknown" else DONE


def look_up(config: Config, issue: str, *, everything: bool = False) -> tuple[Situation, list[Entry]]:
    """Where the issue stands, and its story; what the store has let go is where the tracker says."""
    situation, entries = _look_up(config, issue, everything=everything)
    if situation.state == "released":
        with suppress(SortieError):
            told = _ask_tracker(config, issue)
            if told.state != "unknown":
                situation = Situation("released", told.sentence)
    return situation, entries


def _look_up(config: Config, issue: str, *, everything: bool) -> tuple[Situation, list[Entry]]:
    if config.db_path.exists():
        served = holder_of(config.db_path) is not None
        with looking_at(config) as db:
            if issue_id := find_issue(db, issue):
                known = timeline(
                    db,
                    issue_id,
                    now=time.time(),
                    served=served,
                    hide=Redactor(config.secrets).text,
                    policy=config.policy(),
                    limit=EVENTS_SHOWN,
                    everything=everything,
                )
                for sentence in known.unreadable:
                    complain(sentence)
                return known.situation, known.entries
    return _ask_tracker(config, issue), []


def _ask_tracker(config: Config, text: str) -> Situation:
    """About an issue that the store has never seen, or has let go."""
    from ..sources.adapters import peek, with_every_state

    if not config.tracker.kind:  # a store whose source is not known here
        return Situation("unknown", f"{text} is not known here.")
    try:
        everything = peek(with_every_state(config))
        if everything is None:
            import anyio  # with the rest of what a tracker needs: a file is read without it

            load_checked(config.path)  # who looks at the store needs no keys; who asks the tracker does
            with told_when_slow("asking the tracker"):
                return anyio.run(_asked, config, text)
        issue = next((one for one in everything.issues if text in (one.id, one.identifier)), None)
        if issue is None:
            return _unknown(config, text)
        is_active = config.policy().is_active(issue.state)
        return _unseen(text) if is_active else _inactive(config, text, issue)
    except (TrackerError, ConfigurationError) as error:
        if isinstance(error, TrackerError) and error.kind == TrackerError.NOT_FOUND:
            return _unknown(config, text)
        return Situation("unknown", f"{text} is not known here, and the tracker could not be asked: {error}")


def _unseen(text: str) -> Situation:
    return Situation("unseen", f"The tracker shows {text}, but no service has polled since; start `sortie run`.")


def _inactive(config: Config, text: str, issue: Issue) -> Situation:
    sentence = f"{text} is in {issue.state}, which is not an active state ({_active_states(config)})."
    return Situation("unseen", sentence)


def _unknown(config: Config, text: str) -> Situation:
    states = _active_states(config)
    sentence = f"{text} is not known to the tracker as an active issue (active states: {states})."
    return Situation("unknown", sentence)


def _active_states(config: Config) -> str:
    return ", ".join(config.tracker.active_states) or "any but the terminal ones"


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

    candidates = (await tracker.fetch_candidates()).issues
    if any(text in (issue.id, issue.identifier) for issue in candidates):
        return _unseen(text)
    issue = await find_issue(tracker, config, text)  # it may be called otherwise, as by `#42`
    if any(issue.id == one.id for one in candidates):
        return _unseen(text)
    if config.policy().is_active(issue.state):
        return Situation("unseen", f"{text} is in {issue.state}, but the tracker does not offer it as work.")
    return _inactive(config, text, issue)
