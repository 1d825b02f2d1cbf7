"""The steps of a script, checked: what is not a step is refused in words that say which one and why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .wire import Json, Tool, ToolCall, Usage

T = TypeVar("T")

LONGEST_WAIT = 86_400.0
FAULT_OPTIONS = frozenset({"times", "id"})
TAKEN = "@TAKEN@"
ANYWHERE = frozenset({"sleep", "usage"})


class ScriptError(ValueError):
    """The script asks for something that is not a step."""


@dataclass(frozen=True)
class Say:
    text: str
    refused: bool = False


@dataclass(frozen=True)
class Shell:
    """`take` is what to look for in the last result; what is found stands for TAKEN in the command."""

    command: str
    take: str = ""


@dataclass(frozen=True)
class Call:
    """`loosely`: any tool will do whose name ends with this one."""

    name: str
    arguments: Json
    loosely: bool


@dataclass(frozen=True)
class Fail:
    status: int
    message: str
    headers: Mapping[str, str]
    body: Json | None


@dataclass(frozen=True)
class Hang:
    seconds: float


@dataclass(frozen=True)
class Break:
    """An answer that ends in its middle, after a silence."""

    seconds: float = 0.0


Deed = Say | Shell | Call | Fail | Hang | Break


@dataclass(frozen=True)
class Step:
    kind: str
    deed: Deed
    sleep: float = 0.0
    usage: Usage | None = None
    times: int | None = None


@dataclass(frozen=True)
class Script:
    text: str
    steps: tuple[Step, ...] = field(repr=False)


def parse(source: Sequence[object]) -> Script:
    steps = []
    for number, step in enumerate(source, 1):
        try:
            steps.append(_step(step))
        except ScriptError as error:
            raise ScriptError(f"step {number} of the script: {error}") from None
    return Script(json.dumps(source), tuple(steps))


def is_fault(deed: Deed) -> bool:
    return isinstance(deed, Fail | Hang | Break)


def is_passed(step: Step) -> bool:
    """Whether it comes a number of times, and is no result to wait for after that."""
    return is_fault(step.deed) or step.times is not None


def tool_call(deed: Shell | Call, tools: Sequence[Tool], last_result: str = "") -> ToolCall:
    """A tool that nobody offered is called all the same, as models do; the agent has to cope."""
    match deed:
        case Shell(command, take):
            if take:
                found = re.search(take, last_result)
                command = command.replace(TAKEN, found[0] if found else "")
            tool = next((tool for name in _SHELLS for tool in tools if tool.name == name), Tool("bash"))
            return ToolCall(tool, _SHELLS[tool.name](command))
        case Call(name, arguments, loosely):
            endings = tuple(separator + name for separator in "_-./") if loosely else ()
            fitting = (tool for tool in tools if tool.name == name or tool.name.endswith(endings))
            return ToolCall(next(fitting, Tool(name)), arguments)


def _described(command: str) -> Json:
    return {"command": command, "description": "Run a command"}


_SHELLS: Mapping[str, Callable[[str], Json]] = {
    "Bash": _described,
    "exec_command": lambda command: {"cmd": command},
    "shell_command": _described,
    "shell": lambda command: {"command": ["bash", "-lc", command]},
    "bash": _described,
    "run_shell_command": _described,
}


def _step(source: object) -> Step:
    if not isinstance(source, dict):
        raise ScriptError("must be an object")
    kinds = [kind for kind in _KINDS if kind in source]
    if len(kinds) != 1:
        raise ScriptError(f"must have exactly one of {', '.join(_KINDS)}")
    options, deed_of = _KINDS[kinds[0]]
    if unknown := source.keys() - options - ANYWHERE - {kinds[0]}:
        raise ScriptError(f"{kinds[0]!r} takes no {', '.join(sorted(map(repr, unknown)))}")
    return Step(
        kind=kinds[0],
        deed=deed_of(source),
        sleep=_seconds(source, "sleep") if "sleep" in source else 0.0,
        usage=_usage(source["usage"]) if "usage" in source else None,
        times=_count(source["times"], "times") if "times" in source else None,
    )


def _say(source: Json) -> Say:
    if source.get("stop") not in (None, "refusal"):
        raise ScriptError("'stop' must be \"refusal\"")
    return Say(_typed(source, "text", str), refused=source.get("stop") is not None)


def _shell(source: Json) -> Shell:
    take = _typed(source, "take", str) if "take" in source else ""
    try:
        re.compile(take)
    except re.error as error:
        raise ScriptError(f"'take' must be a pattern: {error}") from None
    return Shell(_typed(source, "shell", str), take)


def _call(source: Json) -> Call:
    kind = "mcp" if "mcp" in source else "tool"
    arguments = _typed(source, "args", dict) if "args" in source else {}
    return Call(_typed(source, kind, str), arguments, loosely=kind == "mcp")


def _fail(source: Json) -> Fail:
    status = _count(source["http"], "http")
    if not 400 <= status <= 599:
        raise ScriptError("'http' must be a status from 400 to 599")
    headers = _typed(source, "headers", dict) if "headers" in source else {}
    # A line break in a header would let a script write the rest of the answer.
    if not all(
        isinstance(part, str) and part.isascii() and part.isprintable() for part in (*headers, *headers.values())
    ):
        raise ScriptError("'headers' must be plain strings by name")
    message = _typed(source, "message", str) if "message" in source else f"scripted {status}"
    return Fail(status, message, headers, _typed(source, "body", dict) if "body" in source else None)


def _drop(source: Json) -> Break:
    if source["drop"] is not True:
        raise ScriptError("'drop' must be true")
    return Break()


def _usage(source: object) -> Usage:
    if isinstance(source, list) and len(source) == 2:
        source = {"input": source[0], "output": source[1]}
    if not isinstance(source, dict) or not {"input", "output"} <= source.keys() <= {"input", "output", "cached"}:
        raise ScriptError("'usage' must be [input, output] or an object of input, output and cached")
    usage = Usage(**{name: _count(value, name) for name, value in source.items()})
    if usage.cached > usage.input:
        raise ScriptError("the 'cached' tokens are among the 'input' tokens and cannot be more")
    return usage


def _count(value: object, name: str) -> int:
    if type(value) is not int or value < 0:
        raise ScriptError(f"{name!r} must be a whole number from 0")
    return value


def _seconds(source: Json, name: str) -> float:
    value = source[name]
    if type(value) not in (int, float) or not 0 <= value <= LONGEST_WAIT:
        raise ScriptError(f"{name!r} must be a number of seconds, at most a day")
    return float(value)


def _typed(source: Json, name: str, kind: type[T]) -> T:
    value: Any = source[name]
    if not isinstance(value, kind):
        raise ScriptError(f"{name!r} must be {'a string' if kind is str else 'an object'}")
    return value


_KINDS: Mapping[str, tuple[frozenset[str], Callable[[Json], Deed]]] = {
    "text": (frozenset({"stop", "times"}), _say),
    "shell": (frozenset({"take"}), _shell),
    "mcp": (frozenset({"args"}), _call),
    "tool": (frozenset({"args"}), _call),
    "http": (FAULT_OPTIONS | {"headers", "message", "body"}, _fail),
    "hang": (FAULT_OPTIONS, lambda source: Hang(_seconds(source, "hang"))),
    "stall": (FAULT_OPTIONS, lambda source: Break(_seconds(source, "stall"))),
    "drop": (FAULT_OPTIONS, _drop),
}
