"""What every show of `sortie demo` has: how it begins, how it is played, and what everyone must have seen of it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from msgspec import Struct


class DemoCheck(Struct, frozen=True):
    """Something that everyone who watches the demo must have seen."""

    sentence: str
    seen: bool


class Played(Struct, frozen=True, kw_only=True):
    """How it went. `data` is that for programs, `advice` has commands to try, each with its purpose."""

    checks: tuple[DemoCheck, ...]
    print_table: Callable[[], None]
    data: dict[str, Any]
    advice: tuple[tuple[str, str], ...]

    @property
    def ok(self) -> bool:
        return all(check.seen for check in self.checks)


class Show(Struct, frozen=True, kw_only=True):
    """`prepare` writes what it needs into an empty directory, `play` runs it there to its end."""

    introduction: str
    prepare: Callable[[Path], None]
    play: Callable[[Path], Played]


def templates(show: str) -> Traversable:
    """Where the files of a show lie in this package."""
    return files("sortie.cli").joinpath("templates", show)


def copy_templates(show: str, target: Path) -> None:
    """All of them, as they are; scripts can be run."""
    _copy(templates(show), target)


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        place = target / entry.name
        if entry.is_dir():
            _copy(entry, place)
        else:
            place.write_bytes(entry.read_bytes())
            place.chmod(0o755 if entry.name.endswith(".sh") else 0o644)
