"""Who takes part: names, found again in upper and lower case, from the first document that has them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from .place import Place

MAINTAINER = "Maintainer"
LONGEST_NAME = 64
# They stand for somebody else, or for nobody.
RESERVED = frozenset({"maintainer", "shared", "all", "everyone", "none", "unowned", "orchestrator", "sortie"})
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
    if not name.isprintable() or any(c in name for c in "|`<>()[]{}:,/\\#*"):
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
    """From the charter; where it names nobody, from the settings; where they do not either, from the mailbox.

    Never raises: a document that cannot be used is named in `problem`, and the next one is asked.
    """
    problems: list[str] = []
    for path, read in ((place.charter, _in_charter), (place.settings, _in_settings), (place.mailbox, _in_mailbox)):
        data = _content(path, problems)
        roster = read(data) if data is not None else Roster()
        if roster.problem:
            problems.append(f"{path.name}: {roster.problem}")
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


def _in_charter(data: bytes) -> Roster:
    from .charter.charter import parse_charter

    roster = parse_charter(data).roster
    return roster if roster.agents else Roster(problem="the charter names no agent")


def _in_settings(data: bytes) -> Roster:
    """Its two keys about people, whatever else is in it; who reads all of it is stricter."""
    from ..workflow.document import Extent, decode, read_tree
    from ..workflow.problems import Problems

    problems = Problems("")
    text = decode(data, problems)
    extent = Extent(noun="the settings", key="agents", first_line=1, most_values=5_000)
    tree = read_tree(text, problems, extent) if text is not None else None
    if tree is None:
        return Roster(problem=str(problems.in_order()[0]) if problems.in_order() else "it cannot be read")
    agents, maintainer = tree.values.get("agents"), tree.values.get("maintainer")
    if not isinstance(agents, dict | list):
        return Roster(problem="it has no map `agents`")
    names = [name for name in map(str, agents) if not problem_with_name(name)]
    return Roster(agents=_each_once(names), maintainer=maintainer if isinstance(maintainer, str) else MAINTAINER)


def _in_mailbox(data: bytes) -> Roster:
    """The rows of its snapshot: one for each agent, and one for the maintainer."""
    from .charter.cells import folded, plain
    from .charter.markdown import read_markdown

    for section in read_markdown(data).sections:
        if folded(section.title).startswith("inbox snapshot"):
            names = [plain(row.cell("agent", "name")) for row in section.rows]
            agents = [name for name in names if not problem_with_name(name)]
            return Roster(agents=_each_once(agents))
    return Roster(problem="it has no inbox snapshot")


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple({fold(name): name.strip() for name in reversed([*names])}.values())[::-1]
