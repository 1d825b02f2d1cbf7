"""`sortie peers init`: charter, work log, mailbox and settings in a repository. What is there already stays."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from ..errors import SortieError
from .charter_new import (
    Participant,
    agents_option,
    charter_text,
    checkout_of,
    maintainer_option,
    session_id,
    settings_text,
    who,
)
from .format import clean, runnable
from .main import DONE, decided
from .printing import print_sentence

if TYPE_CHECKING:
    from ..peers.author import Author
    from ..peers.place import Place


class _Piece(Struct, frozen=True):
    """A document, and how it is written."""

    path: Path
    write: Callable[[], None]


@click.command("init")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), required=False, metavar="[DIR]")
@agents_option
@maintainer_option
@click.option("--no-git", is_flag=True, help="Go on without a git repository; turns need one.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
def init_command(
    directory: Path | None, given: tuple[str, ...], maintainer: str, no_git: bool, dry_run: bool
) -> int:
    """Set the repository of DIR up for agents that take turns in it.

    Writes CHARTER.md, WORKLOG.md, MAILBOX.md and peers.yaml at its top, each only where there is none.
    """
    from ..peers.author import author_of_process
    from ..peers.place import place_at
    from ..peers.turns.exclude import exclude, to_exclude

    place = place_at(checkout_of(directory))
    if not os.path.lexists(place.root / ".git") and not no_git:
        raise SortieError(
            f"{place.root} is in no git repository, and turns need one.",
            fix=f"Make one with `git -C {shlex.quote(str(place.root))} init`, or add --no-git.",
        )
    agents, maintainer = who(place, given, maintainer)
    author = author_of_process(place, maintainer, maintainer=maintainer)
    pieces = _pieces(place, agents, maintainer, author)
    missing = [piece for piece in pieces if not _is_there(piece.path)]
    excluding, is_hidden = to_exclude(place), True
    if not dry_run:
        for piece in missing:
            piece.write()
        is_hidden = exclude(place, excluding)
    decided(DONE)
    for piece in pieces:
        wrote = "would write" if dry_run else "wrote"
        click.echo(clean(f"{wrote} {piece.path}" if piece in missing else f"{piece.path} is there already: kept"))
    if excluding and is_hidden:
        click.echo(f"{'would hide' if dry_run else 'hid'} {' and '.join(excluding)} from git in .git/info/exclude")
    elif excluding:
        click.echo(f".git/info/exclude is not ours to write: hide {' and '.join(excluding)} from git yourself")
    _tell_strangers(place, agents)
    if not dry_run:
        _tell_next(place, agents)
    return DONE


def _pieces(place: Place, agents: list[Participant], maintainer: str, author: Author) -> list[_Piece]:
    from ..peers.charter.charter import parse_charter
    from ..peers.charter.charter_file import CharterFile
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.roster import Roster
    from ..peers.worklog.worklog_file import WorklogFile

    at = time.time()
    names = tuple(agent.name for agent in agents)
    charter = CharterFile(place)

    def begin_worklog() -> None:
        session = parse_charter(charter.read()).session_id or session_id(place.root.name, at)
        WorklogFile(place.worklog, session_id=session).create(names, maintainer, author, at)

    def begin_mailbox() -> None:
        MailboxFile(place, roster=Roster(agents=names, maintainer=maintainer)).create(author, at)

    text = charter_text(place.root.name, agents, maintainer, at)
    return [
        _Piece(place.charter, lambda: charter.create(text.encode(), author, at)),
        _Piece(place.worklog, begin_worklog),
        _Piece(place.mailbox, begin_mailbox),
        _Piece(place.settings, lambda: _write_settings(place, settings_text(agents, maintainer), author, at)),
    ]


def _write_settings(place: Place, text: str, author: Author, at: float) -> None:
    from ..peers.journal import Record
    from ..peers.shared_document import SharedDocument

    with SharedDocument(place.settings).held() as held:
        held.create(text.encode(), Record(at=at, author=author.name, role=author.role, subject="settings begun"))


def _is_there(path: Path) -> bool:
    """An empty file is none. What is no file is left alone, and the others are not written either."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise SortieError(f"{path} is no regular file.", fix="Move it away, or choose another repository.")
    return found.st_size > 0


# -- what to do next --------------------------------------------------------------------------------------------


def _tell_strangers(place: Place, agents: list[Participant]) -> None:
    """A charter that was there may know other people."""
    from ..peers.roster import roster_of

    roster = roster_of(place)
    unknown = [agent.name for agent in agents if roster.agents and roster.find(agent.name) is None]
    if unknown:
        print_sentence(f"The charter does not name {', '.join(unknown)} yet: add them to its roster.", "yellow")


def _tell_next(place: Place, agents: list[Participant]) -> None:
    where = "" if Path.cwd() == place.root else f" --root {shlex.quote(str(place.root))}"
    click.echo("\nNext:")
    for step in (
        f"fill in {place.charter.name}; `sortie charter check{where}` names the placeholders that are left",
        f"`sortie charter adopt{where}` puts it into force",
        f"`sortie turn {shlex.quote(agents[0].name)}{where}` gives {agents[0].name} the first turn",
    ):
        click.echo(f"  {clean(runnable(step))}")
