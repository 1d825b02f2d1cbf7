"""`sortie answer`: answers an agent's question; the agent continues in the same conversation."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.operator import LONGEST_ANSWER, Reply, problem_with_answer
from ..errors import ConfigurationError, SortieError
from ..workflow.config import Config
from .operate import carry_out
from .store_access import load_config, workflow_option

if TYPE_CHECKING:
    from ..core.schedule import Schedule

STANDARD_INPUT = "-"


def _apart(_ctx: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> list[str]:
    """Keeps the words as they are: unlike the names of issues, they are never read as the path of a workflow."""
    return list(words)


class _TakesText(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = "Put `--` between the issue and a text that begins with a dash."
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from error


@click.command("answer", cls=_TakesText)
@click.argument("issue")
@click.argument("words", nargs=-1, required=True, metavar="TEXT", callback=_apart)
@workflow_option
def answer_command(issue: str, words: list[str], workflow: Path) -> int:
    """Answer the question for which an issue is parked; `-` as TEXT reads the answer from standard input.

    The agent gets the answer in its next turn, in the same conversation, and the issue can start again. The answer
    is also posted to the tracker as a comment. If no service runs, all of this happens at the next `sortie run`.
    """
    text = _read() if words == [STANDARD_INPUT] else " ".join(words)
    if problem := problem_with_answer(text):
        raise SortieError(problem)
    return carry_out(load_config(workflow), "answer", [issue], text)


def _read() -> str:
    """Reads one byte more than the limit, so that a longer answer is recognised as too long."""
    return sys.stdin.buffer.read(LONGEST_ANSWER + 1).decode("utf-8", "replace")


def answered(config: Config, schedule: Schedule, issue: str, text: str, now: float) -> Reply:
    """Records the answer in a store that no service owns; the next service posts the comment, if there is a
    tracker."""
    import os
    from secrets import token_hex

    from ..core.operator import answer
    from ..core.redact import Redactor
    from ..sources.adapters import secrets
    from ..sources.comments import on_answer

    hidden = set(config.secrets)
    with suppress(ConfigurationError):  # a workflow that broke names no agent
        hidden = secrets(config, os.environ)
    said = Redactor(hidden).text(text)
    comment = on_answer(said) if config.tracker.kind else ""
    return answer(schedule, issue, said, now, answer_id=token_hex(8), comment=comment)
