"""`sortie plan graph`: a plan drawn with the states of its tasks, as text, as an SVG, or as data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import SortieError
from .format import clean, count
from .main import DONE
from .plan import load_to_look, plan_argument
from .printing import json_option
from .whole_file import write_whole

if TYPE_CHECKING:
    from ..plans.picture import Picture

# Of a text that is written to a file, which no terminal limits.
FILE_WIDTH = 160


@click.command("graph")
@plan_argument
@click.option("--format", "form", type=click.Choice(["text", "svg"]), help="Default: svg for FILE.svg, else text.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@json_option
def graph_command(plan: Path, form: str | None, output: Path | None, as_json: bool) -> int:
    """Draw a plan: who waits for whom, and how each task stands."""
    if as_json and (form or output):
        raise click.UsageError("--json is a form of its own; leave out --format and --output.")
    from ..plans.picture import picture_of
    from ..reports.plan_standing import task_states

    loaded = load_to_look(plan)
    picture = picture_of(loaded, task_states(loaded))
    if as_json:
        from .printing import print_json

        print_json(as_data(loaded.name, picture))
    elif (form or _form_of(output)) == "svg":
        from ..plans.drawing import draw_svg

        write_drawing(draw_svg(picture), output)
    elif output:
        write_drawing(_text(loaded.name, picture), output)
    else:
        print_graph(loaded.name, picture)
    return DONE


def _form_of(output: Path | None) -> str:
    return "svg" if output and output.suffix.lower() == ".svg" else "text"


def as_data(name: str, picture: Picture) -> dict[str, Any]:
    """Everything that is drawn, for programs."""
    from msgspec import to_builtins

    from ..plans.graph import layers

    return {"plan": name, "layers": layers(picture.waits_for), **to_builtins(picture)}


def headline(name: str, picture: Picture) -> str:
    from ..plans.picture import counted

    states = counted(Counter(node.state for node in picture.nodes))
    return f"{name}: {count(len(picture.nodes), 'task')}: {states}"


def print_graph(name: str, picture: Picture) -> None:
    from .plan_drawing import draw_text
    from .printing import print_sentence, room, styled

    print_sentence(headline(name, picture))
    for line in draw_text(picture, room()):
        click.echo("".join(styled(text, style) for text, style in line))


def _text(name: str, picture: Picture) -> str:
    from .plan_drawing import draw_text

    lines = ["".join(text for text, _ in line) for line in draw_text(picture, FILE_WIDTH)]
    return "\n".join([clean(headline(name, picture)), *lines]) + "\n"


def write_drawing(text: str, output: Path | None) -> None:
    """To the file, which is there whole or not at all, or to standard output."""
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        if output.is_file() or not output.exists():
            write_whole(output, text.encode(), "Name another file.")
        else:
            output.write_text(text, "utf-8")  # a pipe, or a device
    except OSError as error:
        raise SortieError(f"{output} cannot be written: {error.strerror}.", fix="Name another file.") from error
