"""Prints what commands found: tables for people, lines for pipes, JSON for programs. Loads no rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .format import cell_width, clean, runnable, short

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

# Wide enough that lines for a pipe are never folded.
_NO_LIMIT = 10_000
# Of a terminal that does not say how wide it is.
_USUAL = 80

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
    "running": "cyan",
    "completed": "green",
    "incomplete": "red",
    "escalated": "magenta",
    "outdated": "yellow",
    "ready": "blue",
    "PASS": "green",
    "WARN": "yellow",
    "FAIL": "red",
}


Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """`--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def room() -> int:
    """How many columns there are to print in; whoever exports COLUMNS wants that width, through a pipe too."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    if not sys.stdout.isatty():
        return _NO_LIMIT
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def styled(text: str, style: str) -> str:
    """`style` is a colour, `bold`, `dim`, or several of them; nothing where nobody would see it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    if not style or plain or not sys.stdout.isatty():
        return text
    looks: dict[str, Any] = {word: True for word in style.split() if word in ("bold", "dim")}
    colour = next((word for word in style.split() if word not in looks), None)
    return click.style(text, fg=colour, **looks)


def print_json(value: Any) -> None:
    import msgspec

    raw = msgspec.json.format(msgspec.json.encode(value), indent=2)
    # A string of the tracker must not reach a terminal as it is, in JSON neither.
    lines = raw.decode().split("\n")
    click.echo("\n".join(line if line.isprintable() else "".join(map(_escaped, line)) for line in lines))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def print_sentence(text: str, style: str = "") -> None:
    """Our own words, folded between them on a terminal, one line elsewhere."""
    for line in _folded(clean(runnable(text)), room()):
        click.echo(styled(line, style))


def print_table(columns: Columns) -> None:
    for line in columns.lines(room()):
        click.echo("".join(styled(text, style) for text, style in line))


def _folded(text: str, width: int) -> Iterator[str]:
    """Lines of at most this width, broken between words; a word that is wider is broken too."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_width(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        line = word
        while cell_width(line) > width:
            fitting = max((end for end in range(1, width + 1) if cell_width(line[:end]) <= width), default=1)
            yield line[:fitting]
            line = line[fitting:]
    yield line


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

    def lines(self, room: int) -> Iterator[list[tuple[str, str]]]:
        """Each line as pieces of text with their styles."""
        widths = self._widths(room)
        yield self._line([(short(header, width), self._header_style) for header, width in widths.items()], widths)
        for row in zip(*(self._cells[header] for header in widths), strict=True):
            cells = [
                [short(text, width)] if header in self._cut else [*_folded(text, width)]
                for text, (header, width) in zip(row, widths.items(), strict=True)
            ]
            for number in range(max(map(len, cells))):
                pieces = [cell[number] if number < len(cell) else "" for cell in cells]
                yield self._line(
                    [(piece, STYLES.get(text, "")) for piece, text in zip(pieces, row, strict=True)], widths
                )

    def _line(self, pieces: list[tuple[str, str]], widths: dict[str, int]) -> list[tuple[str, str]]:
        """Padded to the widths, with no blanks at the end."""
        line: list[tuple[str, str]] = []
        blanks = 0
        for (text, style), (header, width) in zip(pieces, widths.items(), strict=True):
            missing = max(width - cell_width(text), 0)
            before = missing if header in self._right else 0
            if text:
                line += [(" " * (blanks + before), ""), (text, style)]
                blanks = missing - before + GAP
            else:
                blanks += missing + GAP
        return line

    def __rich_console__(self, _terminal: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The same as a part of the live view."""
        from rich.text import Text

        for line in self.lines(options.max_width):
            yield Text.assemble(*line)

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
        width = max(map(cell_width, (header, *self._cells[header])))
        return min(width, LONGEST) if header in self._cut else width

    def _least(self, header: str) -> int:
        if header not in self._cut:
            return _NO_LIMIT
        return NARROW if header == list(self._cells)[-1] else NARROWEST


def _together(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
