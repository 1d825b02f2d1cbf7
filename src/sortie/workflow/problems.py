"""What is wrong with a workflow: each problem with its file, line and key, all collected before anyone stops."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]


class Problem(Struct, frozen=True, kw_only=True):
    """One mistake. `line` is 0 where no line can be named; `key` is empty for the prompt and for whole files."""

    file: str
    line: int
    key: str
    message: str
    severity: Severity

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part)


class Problems:
    """Collects problems; `file` is the workflow, other files are named where they are at fault."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[Problem, None] = {}

    def error(self, message: str, *, key: str = "", line: int = 0, file: str = "") -> None:
        self.add("error", message, key=key, line=line, file=file)

    def warning(self, message: str, *, key: str = "", line: int = 0, file: str = "") -> None:
        self.add("warning", message, key=key, line=line, file=file)

    def add(self, severity: Severity, message: str, *, key: str = "", line: int = 0, file: str = "") -> None:
        problem = Problem(file=file or self.file, line=line, key=key, message=message, severity=severity)
        self._found[problem] = None

    def in_order(self) -> list[Problem]:
        """Without repetitions: other files and the environment first, then the workflow from top to bottom."""
        return sorted(self._found, key=lambda problem: (problem.file == self.file, problem.file, problem.line))


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: a suggestion, or nothing where none is close."""
    by_lower = {option.lower(): option for option in options}
    close = closest(word[:100].lower(), by_lower, 0.6)
    return f'; did you mean "{by_lower[close]}"?' if close else ""


def closest(word: str, options: Iterable[str], likeness: float) -> str:
    """The option most like it, or an empty text where none is like it to that degree."""
    from difflib import get_close_matches  # loaded for those alone who made a mistake

    return next(iter(get_close_matches(word, options, n=1, cutoff=likeness)), "")


def listed(words: Collection[str]) -> str:
    """`a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
