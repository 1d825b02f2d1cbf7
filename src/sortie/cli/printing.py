"""Prints what commands found: tables for people, lines for pipes, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .words import clean

# Wide enough that lines for a pipe are never folded.
_NO_LIMIT = 10_000

STYLES = {
    "parked": "yellow",
    "waiting": "cyan",
    "failed": "red",
    "handed off": "green",
    "done": "green",
    "succeeded": "green",
    "stalled": "red",
    "timed_out": "red",
    "interrupted": "cyan",
    "would start": "green",
    "PASS": "green",
    "WARN": "yellow",
    "FAIL": "red",
}


def console(stream: IO[str] | None = None) -> Console:
    """Prints text as it is: no markup, no highlighting, no emoji codes in what strangers wrote."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else _NO_LIMIT
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def print_json(value: Any) -> None:
    import msgspec

    raw = msgspec.json.format(msgspec.json.encode(value), indent=2)
    # ASCII only: a string of the tracker must not reach a terminal as it is, in JSON neither.
    click.echo("".join(_escaped(character) for character in raw.decode()))


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Columns side by side; the last one may be long, and is folded on a terminal only."""
    terminal = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        last = header == headers[-1]
        table.add_column(header, justify="right" if header in right else "left", no_wrap=not last, overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    if terminal.is_terminal:
        terminal.print(table)
        return
    with terminal.capture() as captured:
        terminal.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def cell(value: str) -> Text:
    text = clean(value)
    return Text(text, style=STYLES.get(text, ""))
