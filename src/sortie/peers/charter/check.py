"""What is wrong with a charter besides what cannot be read: owners, lanes that meet in a file, contracts, gaps.

Reads the names of the repository's files and nothing of their content; runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ...errors import SortieError
from ...workflow.problems import did_you_mean
from ..place import MAILBOX, WORKLOG
from ..roster import fold
from ..turns.checkout import open_checkout
from .cells import folded
from .charter import Charter, Contract, Kind
from .lanes import SHARED, Lane, LaneMap
from .markdown import Remark

MOST_FILES = 1_000_000
STATUSES = ("not started", "draft", "locked")
_SHOWN = 120
# Without these nobody could work by it.
_NEEDED: dict[Kind, str] = {
    "roster": "who takes part",
    "lanes": "who owns which files",
    "criteria": "when the work is done",
}
_USUAL: dict[Kind, str] = {
    "contracts": "shared contracts",
    "governance": "governance settings",
    "gates": "approval gates",
    "escalation": "conflict escalation",
    "handshakes": "handshakes",
}
_NOT_FILES = frozenset({".git", ".sortie"})


class Examination(Struct, frozen=True, kw_only=True):
    """`unowned` is how many of the `files` are in no lane."""

    remarks: tuple[Remark, ...]
    files: int
    unowned: int

    @property
    def is_sound(self) -> bool:
        return all(remark.severity != "error" for remark in self.remarks)


def files_of(root: Path) -> list[str]:
    """All that git tracks, and what it does not know and does not ignore; without a repository, all there are."""
    try:
        checkout = open_checkout(root)
        listed = checkout.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    except SortieError:
        return list(_walked(root))
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _walked(root: Path) -> Iterator[str]:
    count = 0
    for directory, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _NOT_FILES)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(directory, name), root)  # noqa: PTH118
            count += 1
            if count == MOST_FILES:
                return


def examine_charter(charter: Charter, root: Path, files: Sequence[str]) -> Examination:
    """With the remarks of the reading, from top to bottom."""
    lane_map = LaneMap(charter.lanes)
    look = _Look(lane_map, files)
    found = [
        *charter.remarks,
        *_gaps(charter),
        *_strangers(charter),
        *_meetings(look),
        *_empty_lanes(charter.lanes, look, files),
        *_documents(lane_map),
    ]
    begun = [contract for contract in charter.contracts if contract.is_begun]
    named = [location for contract in begun for location in contract.locations if location[0] != "!"]
    # One that git ignores counts too, where it is named without a wildcard.
    there = _found(named, files) | {location for location in named if os.path.lexists(root / location)}
    for contract in charter.contracts:
        found += _about_contract(contract, lane_map, frozenset(named) - there)
    remarks = tuple(sorted(dict.fromkeys(found), key=lambda remark: remark.line))
    return Examination(remarks=remarks, files=len(files), unowned=look.unowned)


def _found(globs: Iterable[str], files: Sequence[str]) -> set[str]:
    """Those of the patterns that some file has; all in one pass."""
    lanes = [Lane(name=glob, owner="-", globs=(glob,)) for glob in dict.fromkeys(globs)]
    lane_map = LaneMap(lanes)
    found: set[str] = set()
    for path in files:
        if len(found) == len(lanes):
            break
        found.update(lane.name for lane in lane_map.lanes_of(path))
    return found


def _gaps(charter: Charter) -> Iterator[Remark]:
    filled = {"roster": charter.roster.agents, "lanes": charter.lanes, "criteria": charter.criteria}
    for kind, what in _NEEDED.items():
        if not filled[kind]:
            yield Remark(line=0, message=f"nothing says {what}")
    if not charter.session_id:
        yield Remark(line=0, message="it has no Session ID, which every event of the work log bears")
    missing = [what for kind, what in _USUAL.items() if kind not in charter.sections]
    if missing:
        yield Remark(line=0, message=f"it has no section about {', '.join(missing)}", severity="warning")
    for member in charter.members:
        if not charter.lanes_of(member.name) and member.name != charter.roster.maintainer:
            yield Remark(line=member.line, message=f"{member.name} owns no lane", severity="warning")


def _strangers(charter: Charter) -> Iterator[Remark]:
    """Owners and signers who do not take part."""
    roster = charter.roster
    owned = [("lane", lane.name, lane.owner, lane.line) for lane in charter.lanes]
    owned += [("contract", contract.name, contract.owner, contract.line) for contract in charter.contracts]
    for kind, name, owner, line in owned:
        if owner and fold(owner) not in SHARED and roster.find(owner) is None:
            close = did_you_mean(owner, (*roster.names, "shared"))
            message = f"{owner[:60]}, the owner of the {kind} “{name[:60]}”, is not in the roster{close}"
            yield Remark(line=line, message=message)
    for signed in charter.handshakes:
        if roster.find(signed.name) is None:
            message = f"{signed.name[:60]}, who signed, is not in the roster"
            yield Remark(line=signed.line, message=message, severity="warning")


class _Look:
    """One pass over all files: which lanes have any, which meet in one, and how many are in none."""

    def __init__(self, lane_map: LaneMap, files: Sequence[str]) -> None:
        self.unowned = 0
        self.filled: set[Lane] = set()
        # Two lanes of different owners, with the first file that both have, and their number.
        self.meetings: dict[tuple[Lane, Lane], tuple[str, int]] = {}
        for path in files:
            having = lane_map.lanes_of(path)
            self.unowned += not having
            self.filled.update(having)
            for other in having[1:]:
                # The first with each of the others: that a file has two owners is told often enough.
                if fold(other.owner) != fold(having[0].owner):
                    first, count = self.meetings.get((having[0], other), (path, 0))
                    self.meetings[having[0], other] = first, count + 1


def _meetings(look: _Look) -> Iterator[Remark]:
    for (one, other), (path, count) in look.meetings.items():
        shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"
        more = f" and {count - 1:,} more" if count > 1 else ""
        both = " and ".join(f"“{lane.name[:60]}” of {lane.owner} (line {lane.line})" for lane in (one, other))
        fix = "narrow one of them" if more else f"narrow one of them, or take it out with !{shown}"
        are = "are" if more else "is"
        message = f"{shown}{more} {are} in two lanes, {both}; a file has one owner: {fix}"
        yield Remark(line=other.line, message=message)


def _empty_lanes(lanes: Sequence[Lane], look: _Look, files: Sequence[str]) -> Iterator[Remark]:
    """A pattern is read from the root, and whoever wrote `*.py` may have thought otherwise."""
    empty = [lane for lane in lanes if lane not in look.filled]
    at_root = [glob for lane in empty for glob in lane.globs if "/" not in glob.rstrip("/") and glob[0] != "!"]
    deeper = _found((f"**/{glob}" for glob in at_root), files) if at_root else set()
    for lane in empty:
        meant = next((glob for glob in lane.globs if f"**/{glob}" in deeper), "")
        hint = f"; {meant} is the one at the root, **/{meant} is any" if meant else ""
        message = f"no file is in the lane “{lane.name[:60]}” yet{hint}"
        yield Remark(line=lane.line, message=message, severity="warning")


def _documents(lane_map: LaneMap) -> Iterator[Remark]:
    for name in (WORKLOG, MAILBOX):
        for lane in lane_map.lanes_of(name)[:1]:
            if not lane.is_shared:
                message = f"{name} is everybody's; take it out of the lane of {lane.owner} with !{name}"
                yield Remark(line=lane.line, message=message)


def _about_contract(contract: Contract, lane_map: LaneMap, missing: frozenset[str]) -> Iterator[Remark]:
    name = contract.name[:60]
    if not contract.owner:
        yield Remark(line=contract.line, message=f"the contract “{name}” has no owner")
    if contract.status and folded(contract.status) not in STATUSES:
        known = "Not started, Draft and Locked"
        message = f"the status “{contract.status[:60]}” of the contract “{name}” is unknown; there are {known}"
        yield Remark(line=contract.line, message=message, severity="warning")
    if not contract.is_begun:
        return
    if not contract.command:
        message = f"the contract “{name}” has no validation command"
        yield Remark(line=contract.line, message=message, severity="warning")
    for location in (each for each in contract.locations if each in missing):
        message = f"{location}, where the contract “{name}” should be, does not exist"
        yield Remark(line=contract.line, message=message)
    for location in contract.locations:
        for lane in lane_map.lanes_of(location)[:1]:
            if contract.owner and fold(lane.owner) != fold(contract.owner):
                message = f"{location} is in the lane of {lane.owner}, and as a contract it is {contract.owner}'s"
                yield Remark(line=contract.line, message=message)
