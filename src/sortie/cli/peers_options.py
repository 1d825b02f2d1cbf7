"""What all commands about documents that agents share take: in which checkout, who writes, text from a pipe."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import SortieError

if TYPE_CHECKING:
    from ..peers.author import Author
    from ..peers.place import Place
    from ..peers.roster import Roster

Command = TypeVar("Command", bound=Callable[..., Any])

# In characters. What is longer is no entry and no message for a person to read.
LONGEST_TEXT = 200_000
_READ = "sortie.read_stdin"
ELSEWHERE = "Put it into a file, and name that file in the text."


def root_option(command: Command) -> Command:
    """`--root DIR`, as `root`; see `place_of`."""
    return click.option(
        "--root",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The checkout; if left out, the nearest directory upwards that has its documents.",
    )(command)


def as_option(command: Command) -> Command:
    """`--as NAME`, as `as_name`; see `writer`."""
    return click.option(
        "--as",
        "as_name",
        default="",
        metavar="NAME",
        help="Write as this agent, for a person who acts for one; an agent always writes as itself.",
    )(command)


def place_of(root: Path | None) -> Place:
    """Where the documents are: the directory that was named, or the nearest one upwards that has one of them."""
    from ..peers.place import find_place, place_at

    if root is None:
        return find_place(Path.cwd())
    if not root.is_dir():
        raise SortieError(f"There is no directory {root}.", fix="Name the checkout with --root.")
    return place_at(root.absolute())


def writer(place: Place, as_name: str) -> Author:
    """Who this process writes as. A name that nobody in the roster has is refused, with the one that was meant."""
    from ..peers.author import author_of_process
    from ..peers.roster import roster_of

    roster = roster_of(place)
    return author_of_process(place, known_name(as_name, roster, "--as"), maintainer=roster.maintainer)


def known_name(name: str, roster: Roster, option: str) -> str:
    """The name as the roster spells it; any name where there is no roster yet."""
    if not name or not roster.agents:
        return name
    if known := roster.find(name):
        return known
    from ..workflow.problems import did_you_mean, listed

    meant = did_you_mean(name, roster.names) or "."
    raise SortieError(f'Nobody here is called "{name}"{meant}', fix=f"{option} takes {listed(roster.names)}.")


def text_from(given: str) -> str:
    """What was given, or for `-` what comes on standard input."""
    text = _piped() if given == "-" else given
    if len(text) > LONGEST_TEXT:
        raise SortieError(f"The text has more than {LONGEST_TEXT:,} characters.", fix=ELSEWHERE)
    if "\0" in text:
        raise SortieError("The text is not text: it has NUL bytes.", fix=ELSEWHERE)
    return text


def _piped() -> str:
    meta = click.get_current_context().meta
    if meta.setdefault(_READ, False):
        raise click.UsageError("Only one text can be read from standard input.")
    meta[_READ] = True
    # A character has at most four bytes; one more byte tells that there is more.
    raw = sys.stdin.buffer.read(4 * LONGEST_TEXT + 1)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        if len(raw) > 4 * LONGEST_TEXT:
            return raw.decode("utf-8", "replace")  # cut in a character; it is too long anyway
        raise SortieError("Standard input is not UTF-8 text.", fix=ELSEWHERE) from None


def typed(words: str, root: Path | None) -> str:
    """One of our commands as advice, for the checkout that was named."""
    return f"`sortie {words}{f' --root {shlex.quote(str(root))}' if root else ''}`"
