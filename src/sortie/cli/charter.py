"""`sortie charter`: the commands for CHARTER.md, each loaded when it is called; and `show`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .format import clean
from .main import DONE, LazyGroup
from .peers_options import place_of, root_option
from .printing import Columns, json_option, print_json, print_sentence, print_table

if TYPE_CHECKING:
    from ..peers.charter.charter import Charter
    from ..peers.charter.charter_file import CharterFile, InForce

FAMILIES: dict[tuple[str, ...], str] = {
    ("init",): "write a charter to begin with",
    ("check",): "every mistake, lanes that overlap, contracts that do not hold",
    ("adopt",): "put the first version into force",
    ("amend",): "put a changed one into force, with the decision",
    ("show",): "what is in force, and what was changed since",
    ("restore",): "put the adopted text back",
}
_HOMES = {"init": "charter_new", "check": "charter_check", "show": "charter"}
HOMES = {name: _HOMES.get(name, "charter_decide") for names in FAMILIES for name in names}
MOST_DIFFERENCES = 200


class CharterGroup(LazyGroup):
    families = FAMILIES
    homes = HOMES

    def is_shorthand(self, word: str) -> bool:  # noqa: ARG002
        return False


@click.group("charter", cls=CharterGroup, invoke_without_command=True)
@click.pass_context
def charter_command(ctx: click.Context) -> None:
    """Who takes part, who owns which files, what was agreed on: CHARTER.md, changed only by the maintainer."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command("show")
@root_option
@click.option("--adopted", is_flag=True, help="Print the adopted text itself.")
@json_option
def show_command(root: Path | None, adopted: bool, as_json: bool) -> int:
    """Show the charter that is in force, and what was changed in the file since it was adopted."""
    from ..peers.charter.charter_file import CharterFile

    file = CharterFile(place_of(root))
    if adopted:
        return _show_adopted(file)
    found = file.in_force()
    if found is None:
        raise SortieError("There is no CHARTER.md here.", fix="`sortie charter init` writes one to begin with.")
    if as_json:
        print_json({"standing": found.standing, "charter": found.charter})
        return DONE
    _tell(found)
    if found.standing.state == "changed":
        _show_changes(found.text, file.read())
    return DONE


def _show_adopted(file: CharterFile) -> int:
    text = file.adopted_text()
    if text is None:
        said = "is not kept here any more" if file.standing().adopted else "does not exist yet"
        raise SortieError(f"An adopted text {said}.", fix="`sortie charter adopt` adopts the one that there is.")
    if sys.stdout.isatty():
        for line in text.decode("utf-8", "replace").splitlines():
            click.echo(clean(line))
    else:
        sys.stdout.buffer.write(text)  # to be put into a file again, byte for byte
    return DONE


def _tell(found: InForce) -> None:
    charter, standing = found.charter, found.standing
    in_force = f"version {standing.version} is in force" if standing.adopted else "draft"
    title = charter.metadata.get("Project") or charter.session_id or "Charter"
    click.echo(clean(f"{title}: {in_force} (session {charter.session_id or '?'})"))
    if standing.problem:
        print_sentence(standing.problem, "yellow")
    click.echo(
        clean(f"agents: {', '.join(charter.roster.agents) or 'none'}; maintainer: {charter.roster.maintainer}")
    )
    for rows in _tables(charter):
        click.echo()
        print_table(rows)
    if charter.criteria:
        click.echo("\nACCEPTANCE CRITERIA")
        for criterion in charter.criteria:
            click.echo(clean(f"  [{'x' if criterion.done else ' '}] {criterion.text}"))


def _tables(charter: Charter) -> Iterator[Columns]:
    if charter.lanes:
        rows = [(lane.name, lane.owner, ", ".join(lane.globs)) for lane in charter.lanes]
        yield Columns(("lane", "owner", "files"), rows, cut=("files",))
    if charter.contracts:
        found = [(each.name, each.owner, each.status, ", ".join(each.locations)) for each in charter.contracts]
        yield Columns(("contract", "owner", "status", "location"), found, cut=("location",))


def _show_changes(adopted: bytes, current: bytes) -> None:
    """The maintainer must see what a decision would be about."""
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (adopted, current))
    changes = list(difflib.unified_diff(before, after, "adopted", "CHARTER.md", lineterm=""))
    click.echo("\nCHANGED SINCE")
    for line in changes[:MOST_DIFFERENCES]:
        click.echo(clean(line))
    if len(changes) > MOST_DIFFERENCES:
        click.echo(f"… and {len(changes) - MOST_DIFFERENCES:,} more lines")
