"""The tools agents call, served by a small process of their own; and what a team needs to add one.

    from sortie.tools import ToolContext, tool

    @tool(name="deploy_preview", description="The address of this issue's preview.")
    def deploy_preview(arguments: dict, context: ToolContext) -> dict:
        return {"url": f"https://{context.identifier.lower()}.preview.example.com"}

A package offers it through an entry point of the group `sortie.tools`. Everything an agent's session starts is
multiplied by all sessions: until a tool needs more, the server loads none of the modules that are slow to load, and
`typing`, `re` and `json` are among them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .team import Tool, ToolContext, tool

__all__ = ["Tool", "ToolContext", "tool"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from . import team

        return getattr(team, name)
    raise AttributeError(f"module 'sortie.tools' has no attribute {name!r}")
