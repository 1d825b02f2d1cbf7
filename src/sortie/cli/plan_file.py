"""`sortie plan check` and `sortie plan schema`: every problem of a plan file, and what editors complete it by."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from ..errors import SortieError
from ..workflow.problems import Problem, Severity
from .format import clean, count
from .main import DONE, USAGE
from .plan import plan_argument
from .printing import json_option, print_json
from .whole_file import write_whole

SCHEMA = "plan.schema.json"
# A schema is far smaller. What is larger is nobody's schema of a plan.
_LARGEST_SCHEMA = 1024 * 1024


@click.command("check")
@plan_argument
@json_option
def check_command(plan: Path, as_json: bool) -> int:
    """Show every problem of a plan file, with file and line.

    Nothing is contacted and nothing is created. Exit code 0 where the plan can be run, else 2.
    """
    from ..plans.graph import layers
    from ..plans.load import examine

    found, problems = examine(plan)
    if as_json:
        errors, warnings = _of(problems, "error"), _of(problems, "warning")
        print_json({"valid": found is not None, "errors": errors, "warnings": warnings})
        return DONE if found else USAGE
    for problem in problems:
        click.echo(clean(f"{problem.severity}: {problem}"))
    if found is None:
        click.echo(clean(f"{plan} cannot be used: {count(len(_of(problems, 'error')), 'error')}."))
        return USAGE
    steps = layers(found.edges)
    depth = f"{count(len(steps), 'layer')} deep"
    at_once = min(max(map(len, steps)), found.max_parallel)
    verdict = f"{count(len(problems), 'warning')}" if problems else "no problem found"
    click.echo(f"{found.name}: {count(len(found.tasks), 'task')}, {depth}, up to {at_once} at a time: {verdict}.")
    return DONE


def _of(problems: list[Problem], severity: Severity) -> list[dict[str, str | int]]:
    return [
        {"file": problem.file, "line": problem.line, "key": problem.key, "message": problem.message}
        for problem in problems
        if problem.severity == severity
    ]


@click.command("schema")
@click.argument("file", type=click.Path(path_type=Path), default=SCHEMA, metavar="[FILE]")
@click.option("--force", is_flag=True, help="Overwrite a file that is no schema of a plan.")
def schema_command(file: Path, force: bool) -> int:
    """Write the JSON Schema of plan files to FILE, or for `-` to standard output.

    FILE is plan.schema.json if left out. Editors complete and check a plan that begins with the line
    `# yaml-language-server: $schema=plan.schema.json`.
    """
    from ..plans.schema import plan_schema

    text = json.dumps(plan_schema(), indent=2, ensure_ascii=True) + "\n"
    if str(file) == "-":
        click.echo(text, nl=False)
        return DONE
    _refuse_to_lose(file, force=force)
    write_whole(file, text.encode(), "Name another file.")
    click.echo(clean(f"wrote {file}"))
    return DONE


def _refuse_to_lose(file: Path, *, force: bool) -> None:
    if not os.path.lexists(file):
        return
    if not file.is_file() or file.is_symlink():
        raise SortieError(f"{file} is no regular file.", fix="Move it away, or name another one.")
    if not force and not _is_plan_schema(file):
        raise SortieError(f"{file} is no schema of a plan.", fix="Name another file, or add --force.")


def _is_plan_schema(file: Path) -> bool:
    from ..plans.schema import TITLE

    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(_LARGEST_SCHEMA))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("title") == TITLE
