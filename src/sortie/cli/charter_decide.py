"""`sortie charter adopt|amend|restore`: which text counts, decided by the maintainer and by nobody else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .charter_check import examined, problems_of, tell_problems
from .format import clean, count
from .main import DONE, UNFINISHED, decided
from .peers_options import place_of, root_option, text_from
from .printing import print_sentence
from .worklog_writing import tell_lost

if TYPE_CHECKING:
    from ..peers.author import Author
    from ..peers.charter.charter_file import Standing
    from ..peers.place import Place


@click.command("adopt")
@root_option
@click.option("--decision", default="", metavar="WHY", help="The reason, for the work log.")
def adopt_command(root: Path | None, decision: str) -> int:
    """Put the first version of CHARTER.md into force. Only the maintainer can.

    The decision is recorded in the work log. With a mistake in the charter nothing is recorded, and the exit code
    is 3.
    """
    from ..peers.charter.charter_file import CharterFile

    place = place_of(root)
    author = the_maintainer(place)
    file = CharterFile(place)
    standing = file.standing()
    if standing.state == "missing":
        raise SortieError(f"{place.charter} does not exist.", fix=standing.problem)
    if standing.version:
        if standing.state == "changed":
            raise SortieError("A charter was adopted already.", fix=standing.problem)
        return _tell_unchanged(standing)
    return _put_into_force(root, text_from(decision) or "This is what was agreed on.", author)


@click.command("amend")
@root_option
@click.option(
    "--decision", required=True, metavar="WHY", help="The reason, for the work log; - reads it from a pipe."
)
@click.option(
    "--file",
    "new",
    type=click.Path(path_type=Path),
    metavar="NEW.md",
    help="The new text; if left out, CHARTER.md as it stands now.",
)
def amend_command(root: Path | None, decision: str, new: Path | None) -> int:
    """Put a changed CHARTER.md into force, with the decision in the work log. Only the maintainer can.

    With a mistake in the charter nothing is recorded, and the exit code is 3.
    """
    from ..peers.charter.charter_file import CharterFile

    place = place_of(root)
    author = the_maintainer(place)
    why = text_from(decision).strip()
    if not why:
        raise click.UsageError("--decision says why; it must not be empty.")
    standing = CharterFile(place).standing()
    if not standing.version:
        raise SortieError("No charter was adopted yet, so there is nothing to amend.", fix=standing.problem)
    if standing.state == "missing" and new is not None:
        raise SortieError("CHARTER.md is gone.", fix="`sortie charter restore` gives it back; then amend it.")
    return _put_into_force(root, why, author, _new_text(new) if new is not None else None)


@click.command("restore")
@root_option
def restore_command(root: Path | None) -> int:
    """Put the adopted text back into CHARTER.md. Only the maintainer can.

    What stands there now is kept in another file, which is named.
    """
    from ..peers.charter.charter_file import CharterFile

    place = place_of(root)
    file = CharterFile(place)
    before = file.standing()
    kept = file.restore(the_maintainer(place), at=time.time())
    if before.state == "adopted":
        return _tell_unchanged(before)
    click.echo(clean(f"{place.charter.name} is version {before.version} again."))
    if kept is not None:
        click.echo(clean(f"What stood there is kept in {kept}"))
    return DONE


def the_maintainer(place: Place) -> Author:
    """Raises inside of any agent's run."""
    from ..peers.author import author_of_process
    from ..peers.roster import roster_of

    maintainer = roster_of(place).maintainer
    return author_of_process(place, maintainer, maintainer=maintainer)


def _put_into_force(root: Path | None, why: str, author: Author, new: bytes | None = None) -> int:
    from ..peers.charter.charter_file import CharterFile

    place = place_of(root)
    file = CharterFile(place)
    _, examination = examined(place, file.read() if new is None else new)
    if not examination.is_sound:
        problems = problems_of(place, examination)
        tell_problems(problems)
        errors = [problem for problem in problems if problem.severity == "error"]
        click.echo(f"Nothing was recorded: {count(len(errors), 'error')}.", err=True)
        return decided(UNFINISHED)
    adoption = file.adopt(why, author, at=time.time(), new=new)
    decided(DONE)
    tell_lost(adoption.lost, root)
    if not adoption.is_new:
        return _tell_unchanged(adoption.standing)
    version = adoption.standing.version
    print_sentence(f"{place.charter.name}: version {version} is in force; the decision is in the work log.")
    return DONE


def _tell_unchanged(standing: Standing) -> int:
    click.echo(f"Nothing to do: version {standing.version} is in force already.")
    return DONE


def _new_text(path: Path) -> bytes:
    from ..peers.charter.markdown import LARGEST
    from ..workflow.document import read_file
    from ..workflow.problems import Problems

    problems = Problems(str(path))
    content = read_file(path, problems, largest=LARGEST)
    if content is None:
        raise SortieError(f"{problems.in_order()[0]}.", fix="Name the file with the new text.")
    return content
