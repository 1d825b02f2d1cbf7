"""Where a workflow keeps what it remembers, and how commands look at it without disturbing a running service."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from ..errors import ConfigurationError, SortieError
from ..plugins import kinds
from ..reports.words import is_plan
from ..store.connect import connect_readonly
from ..store.lock import workflow_holder_of
from ..store.queries import find_issue, last_opened_for
from ..store.sqlite_errors import explained
from ..workflow.config import Config
from ..workflow.loader import Examination, examine
from .format import clean, named_workflow, runnable, typed

if TYPE_CHECKING:
    from ..workflow.loader import Workflow

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
PLACE = click.Path(path_type=Path)
DEFAULT = "WORKFLOW.md"
TRACKER_DEADLINE = 30.0
BY_POSITION = "sortie.workflow"
# Commands that know nothing but a store work for plans too; for the others there is `sortie plan`.
OF_PLANS_TOO = ("logs", "history", "usage", "web", "token new", "token list", "token revoke")
STORE_MAGIC = b"SQLite format 3\0"


def workflow_option(command: Command) -> Command:
    """`-w`; the file, or the directory it is in."""
    return click.option(
        "-w",
        "--workflow",
        type=PLACE,
        callback=_choose,
        help="The workflow, or its directory, or the store of another source; ./WORKFLOW.md if left out.",
    )(command)


def workflow_argument(command: Command) -> Command:
    """The same by position too, for commands that are not about an issue. Eager: `-w` must know of it."""
    by_position = click.argument(
        "place",
        type=PLACE,
        required=False,
        is_eager=True,
        expose_value=False,
        callback=_note,
        metavar="[WORKFLOW.md]",
    )
    return by_position(workflow_option(command))


def issue_or_workflow_argument(command: Command) -> Command:
    """An issue, where one may be left out; a workflow in its place is taken for one."""
    return click.argument("issue", required=False, is_eager=True, callback=_issue_unless_workflow)(command)


def _issue_unless_workflow(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or not _stands_for_workflow(value, at_home=Path(DEFAULT).exists()):
        return value
    ctx.meta[BY_POSITION] = Path(value)
    return None


def _note(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    ctx.meta[BY_POSITION] = value


def _choose(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path:
    by_position: Path | None = ctx.meta.get(BY_POSITION)
    if value is not None and by_position is not None:
        raise click.UsageError(f"{by_position} and -w {value} both name the workflow; one of them is enough.")
    named = value or by_position
    named_workflow.set(str(named or ""))
    if named is not None and is_plan(named) and _name_of(ctx) not in OF_PLANS_TOO:
        raise click.UsageError(f"{named} is a plan; see `sortie plan --help` for its commands.")
    chosen = workflow_at(named or Path(DEFAULT))
    if value is None:
        _object_to_paths(ctx.params.values(), at_home=chosen.exists())
    return chosen


def _name_of(command: click.Context) -> str:
    """As people write it behind `sortie`; groups have sub-commands of the same name."""
    return command.command_path.partition(" ")[2]


def _object_to_paths(given: Iterable[object], *, at_home: bool) -> None:
    """Where a workflow stands in the place of an issue. Beside a workflow, a name may be that of a workspace."""
    for value in given:
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str) and _stands_for_workflow(word, at_home=at_home):
                raise click.UsageError(f"{word} is no issue; name the workflow with `-w {word}`.")


def _stands_for_workflow(word: str, *, at_home: bool) -> bool:
    return _is_workflow(word) and (not at_home or Path(word).is_file() or Path(word).name != word)


def _is_workflow(word: str) -> bool:
    try:
        return workflow_at(Path(word)).is_file()
    except OSError:
        return False  # no name of a file at all


def workflow_at(place: Path) -> Path:
    """A directory stands for the WORKFLOW.md in it."""
    return place / DEFAULT if place.is_dir() else place


def env_file_option(command: Command) -> Command:
    return click.option("--env-file", type=FILE, help="Read SORTIE_* variables from this file too.")(command)


def load_checked(workflow: Path, env_file: Path | None = None) -> Workflow:
    """The workflow, checked by its adapters too; raises `ConfigurationError` with every problem."""
    from ..sources.adapters import load_workflow

    require_workflow(workflow)
    return load_workflow(workflow, os.environ, env_file)


def require_workflow(workflow: Path) -> None:
    if not workflow.exists():
        raise ConfigurationError(f"There is no {workflow}.", fix=_instead_of(workflow))


def _instead_of(missing: Path) -> str:
    """What a person may do, or may have meant: plans and agents that share a checkout have no workflow."""
    from ..peers.place import find_place
    from ..sources.peer_turns import STORE

    if missing.suffix == ".db":
        made_by = "The first `sortie turn`" if missing.name == STORE else "Its service, when it starts,"
        return f"{made_by} makes it; or name another file."
    others, more = [missing.with_name("plan.yaml")], ""
    with suppress(SortieError):
        others.append(find_place(missing.parent).state / STORE)
        if not others[-1].exists():
            more = " The first `sortie turn` makes the store of the agents that share this checkout."
    there = " or ".join(typed(other) for other in others if other.exists())
    return f"`sortie init` writes one; or name another file{f', such as {there}' if there else ''}.{more}"


def load_config(workflow: Path) -> Config:
    """What is known of its settings, also where it is broken."""
    return examine_config(workflow).config


def examine_config(workflow: Path) -> Examination:
    """For commands that look at the store: a workflow that broke, or went, after the service started must not stop
    them, and a source of one's own has none: then the store itself is named."""
    found = examine(workflow, environ=os.environ, kinds=kinds(), trial=False, keys_needed=False)
    if is_plan(workflow):
        from .plan import store_of

        return replace(found, config=replace(found.config, db_path=store_of(workflow)))
    if _is_store(workflow):
        return replace(found, config=replace(found.config, db_path=workflow.absolute()))
    config = _as_served(found.config)
    if found.workflow is None:
        if not config.db_path.exists() or not _is_that_of(config, workflow):
            load_checked(workflow)  # raises with every problem
        what = "is broken (`sortie validate` says how)" if workflow.exists() else "is gone"
        complain(f"{workflow} {what}; this is {config.db_path}.")
    return replace(found, config=config)


def _is_that_of(config: Config, workflow: Path) -> bool:
    """Whether the store is one that this workflow had, should it be gone; else its name is mistyped."""
    if workflow.exists():
        return True
    with looking_at(config) as db:
        return Path(last_opened_for(db)).name in ("", workflow.name)


def _is_store(path: Path) -> bool:
    try:
        if not path.is_file():
            return False  # a FIFO would make us wait
        with path.open("rb") as file:
            return file.read(len(STORE_MAGIC)) == STORE_MAGIC
    except OSError:
        return False


def _as_served(config: Config) -> Config:
    """With the store of the service that works by this workflow, whatever the workflow says since."""
    served = (workflow_holder_of(config.path) or {}).get("store")
    if not isinstance(served, str) or Path(served) == config.db_path.resolve():
        return config
    complain(f"the service works with {served}; the db_path of the workflow takes effect after a restart.")
    return replace(config, db_path=Path(served))


@contextmanager
def looking_at(config: Config) -> Iterator[sqlite3.Connection]:
    """The store, read only; what cannot be read of it is said."""
    with closing(connect_readonly(config.db_path, complain)) as db, explained(config.db_path):
        yield db


def complain(sentence: str) -> None:
    click.echo(f"sortie: {clean(runnable(sentence))}", err=True)


def require_issue(db: sqlite3.Connection, text: str) -> str:
    """The id of the issue a person means; an error where nothing is known of it."""
    issue_id = find_issue(db, text)
    if issue_id is None:
        hint = f"`-w {text}` names a workflow" if _is_workflow(text) else f"`sortie why {text}` asks the tracker"
        raise SortieError(
            f"{text} is not known.", fix=f"`sortie status` and `sortie history` list what is; {hint}."
        )
    return issue_id
