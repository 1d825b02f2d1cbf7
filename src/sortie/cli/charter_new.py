"""The first texts of a repository whose agents take turns: CHARTER.md and peers.yaml, filled in as far as is known.

`sortie charter init` writes the charter alone.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from ..errors import SortieError
from .format import clean
from .main import DONE
from .peers_options import root_option
from .printing import print_sentence

if TYPE_CHECKING:
    from ..peers.place import Place

Command = TypeVar("Command", bound=Callable[..., Any])

_NOT_IN_IDS = re.compile(r"[^a-z0-9]+")
_MARK = re.compile(r"@[A-Z]+@")
_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_-]*|\./[A-Za-z0-9_./-]+")
_NOT_IN_CELLS = str.maketrans({"\\": "/", "|": "/", "`": "'", "<": "(", ">": ")", "{": "(", "}": ")"})


def agents_option(command: Command) -> Command:
    return click.option(
        "--agent",
        "given",
        multiple=True,
        metavar="NAME[=KIND[:COMMAND]]",
        help="An agent that takes part, and what it is: alice=claude-code; again for each.",
    )(command)


def maintainer_option(command: Command) -> Command:
    return click.option("--maintainer", default="", metavar="NAME", help="What the maintainer is called.")(command)


@click.command("init")
@root_option
@agents_option
@maintainer_option
def init_command(root: Path | None, given: tuple[str, ...], maintainer: str) -> int:
    """Write a CHARTER.md to fill in; one that is there stays as it is.

    `sortie peers init` writes it together with the other documents.
    """
    from ..peers.author import author_of_process
    from ..peers.charter.charter_file import CharterFile
    from ..peers.place import place_at

    place = place_at(checkout_of(root))
    agents, maintainer = who(place, given, maintainer)
    author = author_of_process(place, maintainer, maintainer=maintainer)
    if os.path.lexists(place.charter):
        raise SortieError(f"{place.charter} is there already.", fix="Change it, then see `sortie charter check`.")
    at = time.time()
    CharterFile(place).create(charter_text(place.root.name, agents, maintainer, at).encode(), author, at)
    click.echo(clean(f"wrote {place.charter}"))
    print_sentence("Next: fill in its {PLACEHOLDERS}; `sortie charter check` names those that are left.")
    return DONE


def checkout_of(directory: Path | None) -> Path:
    """The top of the repository that this directory is in; without one, the directory itself."""
    start = (directory or Path.cwd()).absolute()
    if not start.is_dir():
        raise SortieError(f"There is no directory {directory}.", fix="Name the checkout.")
    return next((each for each in (start, *start.parents) if os.path.lexists(each / ".git")), start)


def who(place: Place, given: Sequence[str], maintainer: str) -> tuple[list[Participant], str]:
    """Those who were named; where nobody was, those whom the documents name already."""
    from ..peers.roster import fold, problem_with_name, roster_of

    roster = roster_of(place)
    maintainer = maintainer.strip() or roster.maintainer
    if fold(maintainer) != "maintainer" and (problem := problem_with_name(maintainer)):
        raise click.UsageError(f"--maintainer: the name “{maintainer[:60]}” {problem}.")
    agents = participants(given or roster.agents)
    if not agents:
        raise click.UsageError("Say who takes part: --agent alice=claude-code --agent bob=codex.")
    if any(fold(each.name) == fold(maintainer) for each in agents):
        raise click.UsageError(f"--agent: {maintainer} is the maintainer.")
    return agents, maintainer


class Participant(Struct, frozen=True, kw_only=True):
    """An agent as it was named on the command line; `command` is empty where its kind has one of its own."""

    name: str
    kind: str
    command: str = ""


def participants(given: Sequence[str]) -> list[Participant]:
    """`alice`, `alice=claude-code`, `alice=command:./agents/alice.sh`."""
    from ..peers.roster import collisions, problem_with_name

    found = []
    for word in given:
        name, _, program = word.partition("=")
        kind, _, command = program.partition(":")
        if problem := problem_with_name(name):
            raise click.UsageError(f"--agent: the name “{name[:60]}” {problem}.")
        found.append(_participant(name.strip(), kind.strip() or "command", command.strip()))
    for _, name in collisions(each.name for each in found):
        raise click.UsageError(f"--agent: {name} is named twice; upper and lower case make no difference.")
    return found


def _participant(name: str, kind: str, command: str) -> Participant:
    from ..plugins import kinds
    from ..workflow.problems import did_you_mean

    known = kinds()["agent"]
    if kind not in known:
        meant = did_you_mean(kind, known) or f"; there are {', '.join(known)}"
        raise click.UsageError(f'--agent: there is no kind of agent "{kind[:60]}"{meant}')
    if kind == "command" and not command:
        command = f"./agents/{name.lower().replace(' ', '-')}.sh"
    return Participant(name=name, kind=kind, command=command)


def session_id(project: str, at: float) -> str:
    slug = _NOT_IN_IDS.sub("-", project.lower()).strip("-")[:40]
    return f"{time.strftime('%Y-%m-%d', time.gmtime(at))}-{slug or 'session'}"


def charter_text(project: str, agents: Sequence[Participant], maintainer: str, at: float) -> str:
    """A draft: its placeholders are mistakes until somebody wrote what belongs there."""
    cells = {
        "@PROJECT@": _cell(project),
        "@SESSION@": session_id(project, at),
        "@DATE@": time.strftime("%Y-%m-%d", time.gmtime(at)),
        "@MAINTAINER@": _cell(maintainer),
        "@ROSTER@": "\n".join(f"| Agent | {each.name} | {_cell(each.kind)} | {each.name} |" for each in agents),
        "@LANES@": "\n".join(f"| {each.name} | {each.name} | `{{FILES OF THIS LANE}}` |" for each in agents),
        "@HANDSHAKES@": "\n".join(f"| {each.name} | Agent | pending | | |" for each in agents),
    }
    return _filled(_template("CHARTER.md"), cells)


def settings_text(agents: Sequence[Participant], maintainer: str) -> str:
    return _filled(
        _template("peers.yaml"),
        {"@MAINTAINER@": _scalar(maintainer), "@AGENTS@": "\n".join(map(_setting, agents))},
    )


def _setting(agent: Participant) -> str:
    command = f", command: {_scalar(agent.command)}" if agent.command else ""
    return f"  {_scalar(agent.name)}: {{kind: {_scalar(agent.kind)}{command}}}"


def _scalar(text: str) -> str:
    """As YAML: bare where that is certainly a text, else quoted as in JSON, which YAML reads too."""
    is_plain = _PLAIN_SCALAR.fullmatch(text)
    is_word = text.lower() not in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return text if is_plain and is_word else json.dumps(text, ensure_ascii=False)


def _cell(text: str) -> str:
    return clean(text).translate(_NOT_IN_CELLS).strip() or "?"


def _filled(text: str, cells: dict[str, str]) -> str:
    """In one go: what is filled in may look like a mark itself."""
    return _MARK.sub(lambda found: cells[found[0]], text)


def _template(name: str) -> str:
    return files("sortie.cli").joinpath("templates", "peers", name).read_text("utf-8")
