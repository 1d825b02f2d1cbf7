"""What a charter says, read from any bytes: who takes part, lanes, contracts, criteria, rules. Never raises.

What cannot be understood is left out and named in `remarks` with its line. Titles may be numbered, columns may
stand in any order, and further sections and columns are welcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from ..roster import MAINTAINER, Roster, collisions, fold, problem_with_name
from .cells import code_spans, folded, is_nothing, name_in, names_in, paths_in, placeholders, plain
from .lanes import SHARED, Lane, owner_of, problem_with
from .markdown import Document, Remark, Row, Section, labelled, point_of, read_markdown, without_number

__all__ = ["Charter", "Contract", "Criterion", "Lane", "Member", "Remark", "owner_of", "parse_charter"]

MOST_GLOBS = 300
MOST_CONTRACTS = 200
_DEEPEST = 6

Kind = Literal[
    "metadata", "roster", "lanes", "contracts", "governance", "criteria", "gates", "escalation", "handshakes"
]

# By the words of a title. Of several that fit, the first counts.
_TITLES: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("lanes", ("lane",)),
    ("contracts", ("contract",)),
    ("criteria", ("criteria", "definition of done")),
    ("roster", ("roster", "participants")),
    ("governance", ("governance",)),
    ("handshakes", ("handshake",)),
    ("gates", ("gate", "approval")),
    ("escalation", ("escalation", "conflict")),
    ("metadata", ("metadata", "session charter")),
)


class Member(Struct, frozen=True, kw_only=True):
    name: str
    role: str
    model: str = ""
    line: int = 0


class Contract(Struct, frozen=True, kw_only=True):
    """What several build against. `locations` are paths or patterns; `command` is empty where none is named."""

    name: str
    locations: tuple[str, ...]
    owner: str = ""
    command: str = ""
    status: str = ""
    line: int = 0

    @property
    def is_begun(self) -> bool:
        return folded(self.status) != "not started"


class Criterion(Struct, frozen=True, kw_only=True):
    text: str
    done: bool = False
    line: int = 0


class Charter(Struct, frozen=True, kw_only=True):
    """`sections` are the kinds that it has; `metadata` and `governance` have their labels as they are written."""

    session_id: str = ""
    metadata: dict[str, str] = {}
    roster: Roster = Roster()
    members: tuple[Member, ...] = ()
    lanes: tuple[Lane, ...] = ()
    contracts: tuple[Contract, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    governance: dict[str, str] = {}
    gates: tuple[str, ...] = ()
    escalation: tuple[str, ...] = ()
    handshakes: tuple[Member, ...] = ()
    sections: frozenset[Kind] = frozenset()
    remarks: tuple[Remark, ...] = ()

    @property
    def unowned(self) -> Literal["maintainer", "anyone"]:
        """Who may change a file that is in no lane."""
        said = next((value for label, value in self.governance.items() if folded(label) == "unowned files"), "")
        return "anyone" if folded(said).startswith("anyone") else "maintainer"

    def lanes_of(self, name: str) -> tuple[Lane, ...]:
        return tuple(lane for lane in self.lanes if fold(lane.owner) == fold(name))


def parse_charter(data: bytes) -> Charter:
    document = read_markdown(data)
    reader = _Reader(document)
    metadata = reader.labels("metadata")
    members = tuple(reader.members())
    roster = reader.roster(members)
    session = next((value for label, value in metadata.items() if folded(label) in ("session id", "session")), "")
    return Charter(
        session_id=session,
        metadata=metadata,
        roster=roster,
        members=members,
        lanes=tuple(reader.lanes(roster)),
        contracts=reader.first_contracts(roster),
        criteria=tuple(reader.criteria()),
        governance=reader.labels("governance"),
        gates=tuple(reader.points("gates")),
        escalation=tuple(reader.points("escalation")),
        handshakes=tuple(reader.handshakes()),
        sections=frozenset(reader.by_kind),
        remarks=reader.all_remarks(),
    )


class _Reader:
    def __init__(self, document: Document) -> None:
        self.remarks = [*document.remarks]
        self.by_kind: dict[Kind, list[Section]] = {}
        kind: Kind | None = "metadata"
        depth = 0
        for section in document.sections:
            found = _kind_of(section.title)
            if found is None and section.depth <= 1:
                kind, depth = "metadata", _DEEPEST  # the document itself: what follows is no part of its title
            elif found or section.depth <= depth:
                kind, depth = found, section.depth  # a section below one that is known is a part of it
                if found is None:
                    self._remark(section.line, f"the section “{section.title[:60]}” has no meaning here", "warning")
            if kind:
                self.by_kind.setdefault(kind, []).append(section)
        for line in document.lines():
            for place in placeholders(line.text):
                self._remark(line.number, f"{place} is still to be filled in")

    def all_remarks(self) -> tuple[Remark, ...]:
        return tuple(sorted(dict.fromkeys(self.remarks), key=lambda remark: remark.line))

    def labels(self, kind: Kind) -> dict[str, str]:
        """`Label: value` in lines and in tables of two columns; of one that is there twice, the first."""
        found: dict[str, str] = {}
        for section in self.by_kind.get(kind, ()):
            for pair in labelled(section.lines):
                found.setdefault(pair.name, plain(pair.value))
            for row in section.rows:
                cells = [plain(cell) for cell in row.cells.values()]
                if len(cells) >= 2 and cells[0]:
                    found.setdefault(cells[0], cells[1])
        return found

    def points(self, kind: Kind) -> Iterator[str]:
        """Each line, and each row of a table as one."""
        for section in self.by_kind.get(kind, ()):
            for line in section.lines:
                point = point_of(line.text)
                if text := plain(point[0] if point else line.text):
                    yield text
            for row in section.rows:
                yield " — ".join(filter(None, (plain(cell) for cell in row.cells.values())))

    # -- who ------------------------------------------------------------------------------------------------

    def members(self) -> Iterator[Member]:
        for section in self.by_kind.get("roster", ()):
            for row in section.rows:
                name = name_in(row.cell("agent", "name", "participant", "member"))
                role, model = plain(row.cell("role")), plain(row.cell("model", "provider", "kind"))
                yield from self._member(row.line, name, role, model)
            for line in section.lines:
                if point := point_of(line.text):
                    before, _, after = point[0].replace(" — ", ":").replace(" - ", ":").partition(":")
                    is_role = fold(plain(before)) == "maintainer" and bool(after.strip())
                    name, role = (after, before) if is_role else (before, after)
                    yield from self._member(line.number, name_in(name), plain(role), "")

    def _member(self, line: int, name: str, role: str, model: str) -> Iterator[Member]:
        is_maintainer = "maintainer" in folded(role)
        if is_maintainer and (is_nothing(name) or fold(name) in ("maintainer", "human")):
            name = MAINTAINER
        elif problem := problem_with_name(name):
            if not placeholders(name):
                self._remark(line, f"the name “{name[:60]}” {problem}")
            return
        yield Member(name=name, role=role, model=model, line=line)

    def roster(self, members: Sequence[Member]) -> Roster:
        for before, name in collisions(member.name for member in members):
            line = next(member.line for member in reversed(members) if member.name == name)
            same = "is there twice" if before == name else f"differs from {before} in upper and lower case alone"
            self._remark(line, f"{name} {same}; two that take part need two names")
        leading = [member.name for member in members if "maintainer" in folded(member.role)]
        if len(leading) > 1:
            self._remark(members[-1].line, f"there is one maintainer, not {len(leading)}: {', '.join(leading[:5])}")
        maintainer = leading[0] if leading else MAINTAINER
        agents = {fold(member.name): member.name for member in reversed(members) if member.name not in leading}
        agents.pop(fold(maintainer), None)
        return Roster(agents=tuple(agents.values())[::-1], maintainer=maintainer)

    def handshakes(self) -> Iterator[Member]:
        for section in self.by_kind.get("handshakes", ()):
            for row in section.rows:
                if name := name_in(row.cell("signed", "agent", "name")):
                    yield Member(name=name, role=plain(row.cell("handshake status", "status")), line=row.line)

    # -- what -----------------------------------------------------------------------------------------------

    def lanes(self, roster: Roster) -> Iterator[Lane]:
        room = MOST_GLOBS
        for section in self.by_kind.get("lanes", ()):
            if not section.rows and any(line.text.strip() for line in section.lines):
                self._remark(section.line, "lanes are read from a table with the columns Lane, Owner, Files/Scope")
            for row in section.rows:
                name = plain(row.cell("lane", "name", "area"))
                owner = self._owner(row, name, roster)
                globs = tuple(self._globs(row, row.cell("files/scope", "files", "scope", "path", "glob"), name))
                if len(globs) > room:
                    self._remark(
                        row.line, f"a charter has at most {MOST_GLOBS} patterns; those from here are not used"
                    )
                    return
                room -= len(globs)
                if owner and globs:
                    yield Lane(name=name or owner, owner=owner, globs=globs, line=row.line)

    def _owner(self, row: Row, lane: str, roster: Roster) -> str:
        names = names_in(row.cell("owner", "agent"))
        if not names:
            self._remark(row.line, f"the lane “{lane[:60]}” has no owner")
            return ""
        if all(fold(name) in SHARED for name in names):
            return "shared"
        known = [roster.find(name) or name for name in names]
        if len(set(known)) > 1:
            self._remark(row.line, f"the lane “{lane[:60]}” has {len(known)} owners; it needs one, or `shared`")
            return ""
        return known[0]

    def _globs(self, row: Row, cell: str, lane: str) -> Iterator[str]:
        count = 0
        for piece, is_code in paths_in(cell):
            if placeholders(piece):
                count += 1  # it has a remark already
                continue
            glob = piece.removeprefix("./")
            if " " in glob and not is_code:
                self._remark(row.line, f"“{glob[:60]}” is no path; one with blanks stands in `code`")
            elif problem := problem_with(glob):
                self._remark(row.line, f"the pattern {glob[:60]} {problem}")
            else:
                yield glob
            count += 1
        if not count:
            self._remark(row.line, f"the lane “{lane[:60]}” has no files")

    def first_contracts(self, roster: Roster) -> tuple[Contract, ...]:
        found = tuple(islice(self.contracts(roster), MOST_CONTRACTS + 1))
        if len(found) > MOST_CONTRACTS:
            self._remark(
                found[-1].line, f"a charter has at most {MOST_CONTRACTS} contracts; those from here do not count"
            )
        return found[:MOST_CONTRACTS]

    def contracts(self, roster: Roster) -> Iterator[Contract]:
        for section in self.by_kind.get("contracts", ()):
            for row in section.rows:
                yield from self._contract(row, roster)
            cells: dict[str, str] = {}
            line = section.line
            for pair in labelled(section.lines):
                if pair.label in cells:
                    yield from self._contract(Row(line=line, cells=cells), roster)
                    cells, line = {}, pair.line
                cells[pair.label] = pair.value
            if cells:
                named = cells if _kind_of(section.title) else {"name": section.title} | cells
                yield from self._contract(Row(line=line, cells=named), roster)

    def _contract(self, row: Row, roster: Roster) -> Iterator[Contract]:
        where = row.cell("location", "file", "path", "schema", "contract location")
        name = plain(row.cell("contract", "name", "interface")) or plain(where)
        if is_nothing(where) and is_nothing(name):
            return
        owner = name_in(row.cell("owner"))
        yield Contract(
            name=name,
            locations=tuple(self._globs(row, where, name)),
            owner="shared" if fold(owner) in SHARED else roster.find(owner) or owner,
            command=self._command(
                row, row.cell("validation command", "validation", "command", "check", "test"), name
            ),
            status=plain(row.cell("status")),
            line=row.line,
        )

    def _command(self, row: Row, cell: str, contract: str) -> str:
        """Only what stands in code: a sentence must not be run."""
        spans = code_spans(cell)
        if not spans and not is_nothing(cell) and not placeholders(cell):
            message = f"the validation of “{contract[:60]}” is not run; a command stands in `code`"
            self._remark(row.line, message, "warning")
        return " && ".join(span for span in spans if not placeholders(span))

    def criteria(self) -> Iterator[Criterion]:
        for section in self.by_kind.get("criteria", ()):
            for line in section.lines:
                text, done = point_of(line.text) or (line.text, False)
                if not is_nothing(said := plain(text)) and not placeholders(said):
                    yield Criterion(text=said, done=done, line=line.number)
            for row in section.rows:
                said = " — ".join(filter(None, (plain(cell) for cell in row.cells.values())))
                if said:
                    yield Criterion(text=said, line=row.line)

    def _remark(self, line: int, message: str, severity: Literal["error", "warning"] = "error") -> None:
        self.remarks.append(Remark(line=line, message=message, severity=severity))


def _kind_of(title: str) -> Kind | None:
    said = folded(without_number(title))
    return next((kind for kind, words in _TITLES if any(word in said for word in words)), None)
