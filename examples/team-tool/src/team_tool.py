"""One tool: how many lines the files of a kind have in the agent's workspace."""

from __future__ import annotations

from typing import Any

from sortie.tools import ToolContext, tool


@tool(
    name="line_count",
    description="How many lines the files with a certain suffix have in your workspace.",
    input_schema={
        "type": "object",
        "properties": {"suffix": {"type": "string", "description": "Such as .py"}},
        "required": ["suffix"],
        "additionalProperties": False,
    },
    timeout=10,
)
def line_count(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    files = [path for path in context.workspace.rglob(f"*{arguments['suffix']}") if path.is_file()]
    return {"files": len(files), "lines": sum(path.read_bytes().count(b"\n") for path in files)}
