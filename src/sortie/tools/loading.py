"""Finds and loads the tools of teams; one that is of no use is left out, and said so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import ConfigurationError
from ..plugins import load_plugin
from .definitions import BUILTIN
from .limited import GivenUp, run_limited
from .team import Tool

GROUP = "sortie.tools"

_IMPORT_SECONDS = 10.0


def installed() -> dict[str, str]:
    """Every installed tool of a team by name, with the `module:attribute` it is loaded from."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


def listed(targets: Mapping[str, str]) -> str:
    """Several tools as one value of `SORTIE_TOOL_PLUGINS`: `name=module:attribute,…`."""
    return ",".join(f"{name}={target}" for name, target in targets.items())


def from_list(text: str) -> dict[str, str]:
    """The reverse of `listed`."""
    pairs = (entry.partition("=") for entry in text.split(",") if entry.strip())
    return {name.strip(): target.strip() for name, _, target in pairs}


def load_tools(targets: Mapping[str, str]) -> tuple[list[Tool], list[str]]:
    """The tools, and a sentence for each that is left out."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for name in targets:
        found = _load(name, targets)
        if isinstance(found, str):
            problems.append(found)
        elif found.name in (taken := {*BUILTIN, *tools}):
            problems.append(f"The tool {name} is left out: its name {found.name} is taken ({_list(taken)}).")
        else:
            tools[found.name] = found
    return list(tools.values()), problems


def _load(name: str, targets: Mapping[str, str]) -> Tool | str:
    try:
        found = run_limited(lambda: load_plugin(GROUP, targets, name), _IMPORT_SECONDS)
    except ConfigurationError as error:
        return f"The tool {name} is left out. {error}"
    except GivenUp:
        return f"The tool {name} is left out: importing {targets[name]} takes longer than {_IMPORT_SECONDS:g} s."
    except SystemExit:
        return f"The tool {name} is left out: importing {targets[name]} wants to end the program."
    if not isinstance(found, Tool):
        return (
            f"The tool {name} is left out: {targets[name]} is no tool. Put @sortie.tools.tool(…) on its function."
        )
    return found


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
