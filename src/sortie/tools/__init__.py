"""The tools agents call, served by a small process of their own; and what a team needs to add one.

    from sortie.tools import ToolContext, tool

    @tool(name="deploy_preview", description="The address of this issue's preview.")
    def deploy_preview(arguments: dict, context: ToolContext) -> dict:
        return {"url": f"https://{context.identifier.lower()}.preview.example.com"}

A package offers it through an entry point of the group `sortie.tools`. Everything an agent's session starts is
multiplied by all sessions: nothing here loads more than the standard library before a tool needs it.
"""

from __future__ import annotations

from .team import Tool, ToolContext, tool

__all__ = ["Tool", "ToolContext", "tool"]
