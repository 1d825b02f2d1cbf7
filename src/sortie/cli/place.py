"""Where a workflow keeps what it remembers, and how commands look at it without disturbing a running service."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import ConfigurationError, SortieError
from ..store.connect import connect_readonly
from ..store.faults import explain
from ..store.reading import find_issue
from ..workflow.config import Config

if TYPE_CHECKING:
    from ..workflow.load import Workflow

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False, path_type=Path)
DEFAULT = "WORKFLOW.md"


def workflow_argument(command: Command) -> Command:
    return click.argument("workflow", type=FILE, default=DEFAULT, metavar="[WORKFLOW.md]")(command)


def workflow_option(command: Command) -> Command:
    return click.option(
        "-w", "--workflow", type=FILE, default=DEFAULT, help="The workflow; ./WORKFLOW.md if left out."
    )(command)


def env_file_option(command: Command) -> Command:
    return click.option("--env-file", type=FILE, help="Read SORTIE_* variables from this file too.")(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def load_checked(workflow: Path, env_file: Path | None = None) -> Workflow:
    """The workflow, checked by its adapters too; raises `ConfigurationError` with every problem."""
    from ..engine.reload import load_workflow

    _require(workflow)
    return load_workflow(workflow, os.environ, env_file)


def _require(workflow: Path) -> None:
    if not workflow.exists():
        raise ConfigurationError(f"There is no {workflow}.", fix="`sortie init` writes one; or name another file.")


def load_config(workflow: Path) -> Config:
    """For commands that look at the store: a workflow that broke after the service started must not stop them."""
    from ..engine.reload import examine_workflow

    _require(workflow)
    found = examine_workflow(workflow, os.environ)
    if found.workflow is None:
        if not found.config.db_path.exists():
            return load_checked(workflow).config  # raises with every problem
        click.echo(
            f"sortie: {workflow} is broken (`sortie validate` says how); this is {found.config.db_path}.", err=True
        )
    return found.config


@contextmanager
def looking_at(config: Config) -> Iterator[sqlite3.Connection]:
    """The store, read only."""
    with closing(connect_readonly(config.db_path)) as db:
        try:
            yield db
        except sqlite3.Error as error:
            raise explain(error, config.db_path) from error


def require_issue(db: sqlite3.Connection, text: str) -> str:
    """The id of the issue a person means; an error where nothing is known of it."""
    issue_id = find_issue(db, text)
    if issue_id is None:
        raise SortieError(f"{text} is not known.", fix="`sortie status` and `sortie history` list what is.")
    return issue_id
