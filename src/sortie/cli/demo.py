"""`sortie demo`: a show on embedded defaults, in a directory that stays; it checks and explains itself."""

from __future__ import annotations

import shlex
import tempfile
from importlib import import_module
from pathlib import Path

import click

from ..errors import SortieError
from .demo_show import Played, Show
from .format import clean, program
from .main import DONE, FAILED, decided
from .printing import json_option, print_json, styled

SHOWS = ("issues", "plan", "peers")


@click.command("demo")
@click.argument("show", type=click.Choice(SHOWS), default="issues", metavar=f"[{'|'.join(SHOWS)}]")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Run it in DIR.")
@json_option
def demo_command(show: str, keep: Path | None, as_json: bool) -> int:
    """See Sortie do its job: no account, no network, about ten seconds.

    `sortie demo` works off six issues, `sortie demo plan` runs nine tasks that wait for each other, and in `sortie
    demo peers` two agents take turns in one repository. It runs in a directory of its own and checks itself: exit
    code 0 where everything went as scripted.
    """
    if keep and keep.exists() and any(keep.iterdir()):
        raise SortieError(f"{keep} is not empty.", fix="Name a directory that does not exist yet.")
    on_stage: Show = import_module(f"sortie.cli.demo_{show}").SHOW
    if not as_json:
        click.echo(on_stage.introduction)  # where nobody reads that, nothing is made
    directory = _make_directory(keep)
    on_stage.prepare(directory)
    played = on_stage.play(directory)
    code = decided(DONE if played.ok else FAILED)
    if as_json:
        print_json({"ok": played.ok, "checks": played.checks, **played.data})
    else:
        _print_result(played, directory)
    return code


def _make_directory(keep: Path | None) -> Path:
    """Named at once, because it stays."""
    if keep is None:
        directory = Path(tempfile.mkdtemp(prefix="sortie-demo-"))
    else:
        keep.mkdir(parents=True, exist_ok=True)
        directory = keep.absolute()
    click.echo(f"It runs in {clean(str(directory))}, which stays until you remove it.", err=True)
    return directory


def _print_result(played: Played, directory: Path) -> None:
    click.echo()
    played.print_table()
    click.echo(styled("\nWhat you saw", "bold"))
    for check in played.checks:
        mark = styled("✓", "green") if check.seen else styled("✗", "bold red")
        click.echo(f"  {mark} {clean(check.sentence)}")
    if not played.ok:
        click.echo(styled("\nThis did not go as scripted.", "bold red"))
    click.echo(styled("\nWhat next", "bold"))
    advice = [(purpose, f"{program()} {command}") for purpose, command in played.advice]
    advice.append(("remove what it left", f"rm -r {shlex.quote(str(directory))}"))
    width = max(len(purpose) for purpose, _ in advice)
    for purpose, command in advice:
        click.echo(styled(f"  {purpose:<{width}}  ", "dim") + clean(command))
