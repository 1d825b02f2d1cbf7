"""`sortie validate`: every problem of a workflow at once. Nothing is contacted, nothing is created."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..engine.reload import check_workflow
from ..workflow.problems import Problem
from .exits import DONE, USAGE
from .place import env_file_option, json_option, workflow_argument
from .printing import print_json
from .words import clean


@click.command("validate")
@workflow_argument
@env_file_option
@json_option
def validate_command(workflow: Path, env_file: Path | None, as_json: bool) -> int:
    """Show every problem of a workflow, with file and line.

    Nothing is contacted and nothing is created. Exit code 0 where the workflow can be used, else 2.
    """
    problems = check_workflow(workflow, os.environ, env_file)
    errors = [problem for problem in problems if problem.severity == "error"]
    warnings = [problem for problem in problems if problem.severity == "warning"]
    if as_json:
        print_json({"valid": not errors, "errors": _plain(errors), "warnings": _plain(warnings)})
    else:
        for problem in problems:
            click.echo(clean(f"{problem.severity}: {problem}"))
        click.echo(clean(f"{workflow} {_verdict(len(errors), len(warnings))}."))
    return USAGE if errors else DONE


def _plain(problems: list[Problem]) -> list[dict[str, str | int]]:
    return [
        {"file": problem.file, "line": problem.line, "key": problem.key, "message": problem.message}
        for problem in problems
    ]


def _verdict(errors: int, warnings: int) -> str:
    if errors:
        return f"cannot be used: {errors} error{'s'[: errors != 1]}"
    return f"is valid, with {warnings} warning{'s'[: warnings != 1]}" if warnings else "is valid"
