"""Prints what commands found: tables for people, lines for pipes, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import IO, Any, Literal

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from .format import clean, runnable, short

# Wide enough that lines for a pipe are never folded.
_NO_LIMIT = 10_000

# Sentences in a table: `sortie why` and `--json` have the whole of them.
LONGEST = 160
# The least room for the sentence at the end of a line, and for any other column.
NARROW, NARROWEST = 12, 8
GAP = 2

STYLES = {
    "parked": "yellow",
    "waiting": "cyan",
    "failed": "red",
    "handed off": "green",
    "done": "green",
    "succeeded": "green",
    "stalled": "red",
    "timed_out": "red",
    "blocked": "yellow",
    "needs-human-review": "green",
    "interrupted": "cyan",
    "would start": "green",
    "PASS": "green",
    "WARN": "yellow",
    "FAIL": "red",
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """It means the same for all commands, however they print."""
        raise BrokenPipeError


def console(stream: IO[str] | None = None) -> Console:
    """Prints text as it is: no markup, no highlighting, no emoji codes in what strangers wrote."""
    stream = stream or sys.stdout
    # Whoever exports COLUMNS wants that width, through a pipe too.
    width = None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else _NO_LIMIT
    return _Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


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


def print_sentence(text: str) -> None:
    """Our own words, folded between them on a terminal, one line elsewhere."""
    console().print(Text(clean(runnable(text))))


def print_table(columns: Columns) -> None:
    terminal = console()
    if terminal.is_terminal:
        terminal.print(columns)
        return
    with terminal.capture() as captured:
        terminal.print(columns)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


class Columns:
    """One line for each row, never wider than there is room: names stay whole, sentences are cut.

    `cut` are the columns of sentences: they share what the others leave. `spare` are the columns that go where that
    is too little, the first of them first. Only a name that is wider than the terminal is folded.
    """

    def __init__(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[str] = (),
        cut: Sequence[str],
        spare: Sequence[str] = (),
        header_style: str = "bold",
    ) -> None:
        self._cells = {header: [clean(row[at]) for row in rows] for at, header in enumerate(headers)}
        self._right = right
        self._cut = cut
        self._spare = spare
        self._header_style = header_style

    def __rich_console__(self, terminal: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=self._header_style)
        for header, width in widths.items():
            justify: Literal["left", "right"] = "right" if header in self._right else "left"
            table.add_column(Text(short(header, width)), justify=justify, width=width, overflow="fold")
        for row in zip(*(self._cells[header] for header in widths), strict=True):
            cells = zip(row, widths.items(), strict=True)
            table.add_row(*(self._cell(text, header, width) for text, (header, width) in cells))
        yield table

    def _cell(self, text: str, header: str, width: int) -> Text:
        return Text(short(text, width) if header in self._cut else text, style=STYLES.get(text, ""))

    def _widths(self, room: int) -> dict[str, int]:
        """The columns that are shown, and how wide."""
        whole = {header: self._whole(header) for header in self._cells}
        least = {header: min(width, self._least(header)) for header, width in whole.items()}
        for header in self._spare:
            if header in least and _together(least) > room:
                del least[header]
        for header in (*self._cut, next(iter(least))):
            if header in least and (over := _together(least) - room) > 0:
                least[header] = max(least[header] - over, 1)
        left = max(room - _together(least), 0)
        # Whoever needs little gets it, and leaves the rest to those who need more.
        wanting = sorted((header for header in least if header in self._cut), key=lambda header: whole[header])
        for others, header in zip(range(len(wanting), 0, -1), wanting, strict=True):
            more = min(whole[header] - least[header], left // others)
            least[header] += more
            left -= more
        return least

    def _whole(self, header: str) -> int:
        width = max(map(cell_len, (header, *self._cells[header])))
        return min(width, LONGEST) if header in self._cut else width

    def _least(self, header: str) -> int:
        if header not in self._cut:
            return _NO_LIMIT
        return NARROW if header == list(self._cells)[-1] else NARROWEST


def _together(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
