"""Who takes part: names, found again in upper and lower case, from the first document that has them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import SortieError

if TYPE_CHECKING:
    from .place import Place

MAINTAINER = "Maintainer"
LONGEST_NAME = 64
# They stand for somebody else, or for nobody.
RESERVED = frozenset({"maintainer", "shared", "all", "everyone", "none", "unowned", "orchestrator", "sortie"})
# They end a name, or begin something else, in headings, tables, messages and on our command line.
_MEANINGFUL = frozenset("|`<>()[]{}:;,=+&/\\#*—→")
_LARGEST = 16 * 1024 * 1024


class Roster(Struct, frozen=True, kw_only=True):
    """`problem` says what is wrong with the document that it should have come from; empty where nothing is."""

    agents: tuple[str, ...] = ()
    maintainer: str = MAINTAINER
    problem: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.agents, self.maintainer)

    def find(self, name: str) -> str | None:
        """The name as the roster has it; `maintainer` finds the maintainer, whatever the name is."""
        wanted = fold(name)
        if wanted == "maintainer":
            return self.maintainer
        return next((one for one in self.names if fold(one) == wanted), None)

    def is_maintainer(self, name: str) -> bool:
        return self.find(name) == self.maintainer


def fold(name: str) -> str:
    """Two names that fold to the same are one."""
    return name.strip().casefold()


def problem_with_name(name: str) -> str:
    """Why nobody can be called so, as the end of a sentence; empty where it is a name."""
    if not name.strip():
        return "is empty"
    if len(name) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} characters"
    if fold(name) in RESERVED:
        return "has a meaning of its own; choose another name"
    if not name.isprintable() or " and " in f" {fold(name)} " or any(c in _MEANINGFUL for c in name):
        return "has a character that has a meaning in the documents; use letters, digits, - and _"
    return ""


def collisions(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names with an earlier one that differs from it in upper and lower case alone, or not at all."""
    first: dict[str, str] = {}
    found = []
    for name in names:
        if (before := first.get(fold(name))) is not None:
            found.append((before, name))
        else:
            first[fold(name)] = name
    return found


def roster_of(place: Place) -> Roster:
    """From the charter in force; where it names nobody, from the settings; where they do not, from the mailbox.

    Never raises: a document that cannot be used is named in `problem`, and the next one is asked.
    """
    problems: list[str] = []
    for read in (_in_charter, _in_settings, _in_mailbox):
        roster = read(place, problems)
        if roster.agents:
            return Roster(agents=roster.agents, maintainer=roster.maintainer, problem="; ".join(problems))
    return Roster(problem="; ".join(problems) or "no document says who takes part")


def _content(path: Path, problems: list[str]) -> bytes | None:
    from ..protocol.safefiles import explain, open_directory, read_bounded

    try:
        with open_directory(path.parent) as directory:
            return read_bounded(directory, path.name, _LARGEST, linked=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {explain(error)}")
        return None


def _in_charter(place: Place, problems: list[str]) -> Roster:
    from .charter.charter_file import CharterFile

    try:
        found = CharterFile(place).in_force()
    except SortieError as error:
        problems.append(error.message.rstrip("."))
        return Roster()
    if found is not None and not found.charter.roster.agents:
        problems.append(f"{place.charter.name} names no agent")
    return found.charter.roster if found is not None else Roster()


def _in_settings(place: Place, problems: list[str]) -> Roster:
    """Its two keys about people, whatever else is in it; who reads all of it is stricter."""
    from ..workflow.document import Extent, decode, read_tree
    from ..workflow.problems import Problems

    if (data := _content(place.settings, problems)) is None:
        return Roster()
    found = Problems(place.settings.name)
    text = decode(data, found)
    extent = Extent(noun="the settings", key="agents", first_line=1, most_values=5_000)
    tree = read_tree(text, found, extent) if text is not None else None
    problems += [str(problem) for problem in found.in_order()[:1]]
    agents, maintainer = (tree.values.get("agents"), tree.values.get("maintainer")) if tree else (None, None)
    if tree is not None and not isinstance(agents, dict):
        problems.append(f"{place.settings.name} has no map `agents`")
        agents = {}
    names = [name for name in agents or {} if not problem_with_name(name)]
    return Roster(agents=_each_once(names), maintainer=maintainer if isinstance(maintainer, str) else MAINTAINER)


def _in_mailbox(place: Place, problems: list[str]) -> Roster:
    """The rows of its snapshot: one for each agent, and one for the maintainer."""
    from .charter.cells import folded, plain
    from .charter.markdown import read_markdown

    if (data := _content(place.mailbox, problems)) is None:
        return Roster()
    for section in read_markdown(data).sections:
        if folded(section.title).startswith("inbox snapshot"):
            names = [plain(row.cell("agent", "name")) for row in section.rows]
            return Roster(agents=_each_once(name for name in names if not problem_with_name(name)))
    problems.append(f"{place.mailbox.name} has no inbox snapshot")
    return Roster()


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple({fold(name): name.strip() for name in reversed([*names])}.values())[::-1]
