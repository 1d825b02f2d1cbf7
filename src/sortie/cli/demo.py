"""`sortie demo`: the main job on embedded defaults, with agents of all manners; it checks and explains itself."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .exit_codes import DONE, FAILED, decided
from .format import clean, program
from .printing import console, print_json
from .store_access import json_option

if TYPE_CHECKING:
    from .performance import Played

INTRODUCTION = """\
Six issues in a file, up to three agents at a time, each a real process in a workspace of its own.
One needs two turns, one blocks, one crashes, one waits for another, one leaves a daemon behind.
"""


@click.command("demo")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Play it in DIR.")
@json_option
def demo_command(keep: Path | None, as_json: bool) -> int:
    """See Sortie do its job: no account, no network, about ten seconds.

    It plays in a directory of its own and checks itself: exit code 0 where everything went as scripted.
    """
    from .performance import perform

    if keep and keep.exists() and any(keep.iterdir()):
        raise SortieError(f"{keep} is not empty.", fix="Name a directory that does not exist yet.")
    if not as_json:
        click.echo(INTRODUCTION)  # where nobody reads that, nothing is made
    directory = _stage(keep)
    played = perform(directory)
    code = decided(DONE if played.ok else FAILED)
    if as_json:
        print_json(played.plain())
    else:
        _tell(played)
    return code


def _stage(keep: Path | None) -> Path:
    """A directory with the workflow, the issues and the agent; named at once, because it stays."""
    if keep is None:
        directory = Path(tempfile.mkdtemp(prefix="sortie-demo-"))
    else:
        keep.mkdir(parents=True, exist_ok=True)
        directory = keep.absolute()
    click.echo(f"It plays in {clean(str(directory))}, which stays until you remove it.", err=True)
    command = f'exec {shlex.quote(sys.executable)} -I "$SORTIE_WORKFLOW_DIR/agent.py"'
    for name, target in (
        ("WORKFLOW.md", "WORKFLOW.md"),
        ("issues.json", "issues.json"),
        ("demo_agent.py", "agent.py"),
    ):
        text = files("sortie.cli").joinpath("templates", "demo", name).read_text("utf-8")
        (directory / target).write_text(text.replace("@COMMAND@", json.dumps(command)), "utf-8")
    return directory


def _tell(played: Played) -> None:
    from .run_summary import print_tally

    terminal = console()
    terminal.print()
    print_tally(played.tally)
    terminal.print("\nWhat you saw", style="bold")
    for sight in played.sights:
        mark, style = ("✓", "green") if sight.seen else ("✗", "bold red")
        terminal.print(f"  {mark} ", style=style, end="")
        terminal.print(clean(sight.sentence), soft_wrap=True)
    if not played.ok:
        terminal.print("\nThis did not go as scripted.", style="bold red")
    workflow = shlex.quote(str(played.directory / "WORKFLOW.md"))
    terminal.print("\nWhat next", style="bold")
    for purpose, command in (
        ("why DEMO-3 ran twice  ", f"{program()} why DEMO-3 -w {workflow}"),
        ("what DEMO-1 said      ", f"{program()} logs DEMO-1 -w {workflow}"),
        ("your own issues       ", f"{program()} init my-project"),
        ("remove what it left   ", f"rm -r {shlex.quote(str(played.directory))}"),
    ):
        terminal.print(f"  {purpose}", style="dim", end="")
        terminal.print(clean(command), soft_wrap=True)
