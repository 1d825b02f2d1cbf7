"""No pattern takes more than time in proportion to the text, whatever the text is.

What agents, tools and people write is searched while everybody else waits. The texts here are so long that a
pattern with a worse habit would need hours: it runs into the time limit of the test, and that is its failure.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import deque
from collections.abc import Callable, Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import sortie
from sortie.agents.error_kinds import classify_error, classify_exit
from sortie.agents.gemini.gemini_home import _COMMENT
from sortie.agents.gemini.gemini_stream import GeminiReader
from sortie.agents.opencode.opencode_stream import OpenCodeReader
from sortie.agents.reset_times import reset_time
from sortie.agents.turn_reader import TurnExit
from sortie.cli.format import clean
from sortie.workflow.gotemplate import go_lines

LONG = 300_000

pytestmark = pytest.mark.timeout(30)


def patterns() -> Iterator[tuple[str, re.Pattern[Any], set[str]]]:
    """Every compiled pattern that a module of ours holds, and the methods by which the module uses it."""
    for found in pkgutil.walk_packages(sortie.__path__, "sortie."):
        if found.name.endswith("__main__") or ".templates" in found.name:
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                used = set(re.findall(rf"\b{name}\.(\w+)\(", inspect.getsource(module)))
                yield f"{module.__name__}.{name}", value, used


PATTERNS = {name: (pattern, methods) for name, pattern, methods in patterns()}


def words_in(parsed: Any) -> Iterator[str]:
    """The runs of literal characters in a pattern, at every depth."""
    run = ""
    for operation, argument in parsed:
        if str(operation) == "LITERAL":
            run += chr(argument)
            continue
        if run:
            yield run
        run = ""
        for part in argument if isinstance(argument, tuple | list) else [argument]:
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, _parser.SubPattern):
                    yield from words_in(inner)
    if run:
        yield run


def attacks(pattern: re.Pattern[Any]) -> Iterator[str]:
    """The pattern's own beginnings without their ends, again and again; and one of each, then the same for ever."""
    words = sorted({*words_in(_parser.parse(pattern.pattern, pattern.flags))})
    for pump in (*words[:8], " ", "1", "a", '\\"', "1.", "a ", "a\n "):
        yield pump * (LONG // len(pump))
    for start in words[:2]:
        for pump in (" ", "1", "a"):
            yield start + pump * LONG


@pytest.mark.parametrize("name", list(PATTERNS))
def test_every_pattern_is_linear(name):
    pattern, methods = PATTERNS[name]
    for text in attacks(pattern):
        searched: Any = text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text
        if methods and methods <= {"match", "fullmatch"}:
            pattern.match(searched)
            pattern.fullmatch(searched)
        else:
            deque(pattern.finditer(searched), maxlen=0)


ENTRANCES: dict[str, Callable[[str], object]] = {
    "reset": reset_time,
    "classify_error": classify_error,
    "exit": lambda text: classify_exit(1, None, text),
    "clean": clean,
    "prompt": lambda text: list(go_lines(text)),
    "comments": lambda text: _COMMENT.sub("", text),
    "opencode": lambda text: (
        OpenCodeReader().read_stderr(text),
        OpenCodeReader().verdict(TurnExit(1, stderr=text)),
    ),
    "gemini": lambda text: (GeminiReader().read_stderr(text), GeminiReader().verdict(TurnExit(144, stderr=text))),
}

PUMPS = (
    "retry in ",
    "resets ",
    " ",
    "1",
    "1h ",
    "a\n ",
    '\\"',
    "{#",
    "{% raw %}",
    '{{ print "',
    "[API Error: ",
    "token count ",
    "Error: ",
    'agent "x" not found ',
    "message=failed ",
    'message="stream error" small=false ',
)


@pytest.mark.parametrize("pump", PUMPS)
@pytest.mark.parametrize("entrance", list(ENTRANCES))
def test_what_strangers_write_is_read_in_proportion_to_its_length(entrance, pump):
    ENTRANCES[entrance](pump * (LONG // len(pump)))
    ENTRANCES[entrance]("retry in" + pump * (LONG // len(pump)) + ".")
