"""`sortie run --dry-run`: what a start would do now, without doing it."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import click
import msgspec

from ..core import actions as act
from ..core.narrate import CAUSES, RULES
from ..engine.preview import preview
from ..sources.remarks import Remark
from .exit_codes import DONE
from .format import clean
from .printing import Columns, print_json, print_table
from .store_access import load_checked


def show_preview(workflow: Path, env_file: Path | None, *, as_json: bool) -> int:
    async def look() -> tuple[list[act.Action], list[Remark], tuple[str, ...]]:
        return await preview(workflow, environ=os.environ, env_file=env_file)

    load_checked(workflow, env_file)
    actions, remarks, problems = anyio.run(look)
    for sentence in (*problems, *(f"{remark}. {remark.fix}" for remark in remarks)):
        click.echo(clean(f"warning: {sentence}"), err=True)
    if as_json:
        print_json([{**msgspec.to_builtins(action), "text": ": ".join(_words(action))} for action in actions])
    elif actions:
        rows = [(_name(action), *_words(action)) for action in actions]
        print_table(Columns(("issue", "decision", "because"), rows, cut=("because",)))
    else:
        click.echo("The tracker shows no active issue; nothing would start.")
    return DONE


def _name(action: act.Action) -> str:
    return action.issue_id if isinstance(action, act.Stop) else action.identifier


def _words(action: act.Action) -> tuple[str, str]:
    """The decision, and the rule behind it."""
    match action:
        case act.Start():
            return "would start", f"{CAUSES.get(action.cause, action.cause)} (attempt {action.attempt})"
        case act.Skip():
            rule = RULES.get(action.rule, action.rule)
            return "held back", f"{rule}: {action.detail}" if action.detail else rule
        case act.Stop():
            return "would stop", action.detail
        case act.ParkIssue():
            return "would be parked", action.reason
        case act.Unpark():
            return "no longer parked", action.why
        case act.DropRetry():
            return "not tried again", action.why
