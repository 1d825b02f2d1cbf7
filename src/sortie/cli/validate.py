"""`sortie validate`: every problem of a workflow and its issue file. Nothing is contacted, nothing is created."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..errors import TrackerError
from ..sources import adapters
from ..sources.warnings import look_at, warnings_about
from ..workflow.config import Config
from ..workflow.problems import Problem
from .format import clean, runnable
from .main import DONE, USAGE
from .printing import json_option, print_json
from .store_access import env_file_option, workflow_argument


@click.command("validate")
@workflow_argument
@env_file_option
@json_option
def validate_command(workflow: Path, env_file: Path | None, as_json: bool) -> int:
    """Show every problem of a workflow, with file and line.

    Where the issues are in a local file, what is wrong with them is shown as warnings. Nothing is contacted and
    nothing is created. Exit code 0 where the workflow can be used, else 2.
    """
    examination = adapters.examine_workflow(workflow, os.environ, env_file)
    problems = [*examination.problems]
    if examination.workflow is not None:
        problems += _in_local_files(examination.config)
    errors = [problem for problem in problems if problem.severity == "error"]
    warnings = [problem for problem in problems if problem.severity == "warning"]
    if as_json:
        print_json({"valid": not errors, "errors": _plain(errors), "warnings": _plain(warnings)})
    else:
        for problem in problems:
            click.echo(clean(runnable(f"{problem.severity}: {problem}")))
        click.echo(clean(f"{workflow} {_verdict(len(errors), len(warnings))}."))
    return USAGE if errors else DONE


def _in_local_files(config: Config) -> list[Problem]:
    """What a look at the issues shows, where that is a look at a file; other trackers are left alone."""
    files = adapters.watched_files(config)
    try:
        candidates = adapters.peek(config)
        if candidates is None or not files:
            return []
        warnings = warnings_about(look_at(candidates), config.policy())
        said = [*candidates.problems, *(f"{warning}. {warning.fix}" for warning in warnings)]
    except TrackerError as error:
        said = [str(error)]
    place = str(files[0])
    return [Problem(file=place, line=0, key="", message=_without(place, text), severity="warning") for text in said]


def _without(place: str, text: str) -> str:
    """The file is named before the sentence: not in it too."""
    if text.startswith(f"{place}: "):
        return text.removeprefix(f"{place}: ")
    for beginning in (f"The issue file {place} ", f"{place} "):
        if text.startswith(beginning):
            return f"The issue file {text.removeprefix(beginning)}"
    return text


def _plain(problems: list[Problem]) -> list[dict[str, str | int]]:
    return [
        {"file": problem.file, "line": problem.line, "key": problem.key, "message": problem.message}
        for problem in problems
    ]


def _verdict(errors: int, warnings: int) -> str:
    if errors:
        return f"cannot be used: {errors} error{'s'[: errors != 1]}"
    return f"is valid, with {warnings} warning{'s'[: warnings != 1]}" if warnings else "is valid"
