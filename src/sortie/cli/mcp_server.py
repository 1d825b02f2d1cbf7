"""`sortie mcp-server` for those who come through the other commands; the usual way in is shorter."""

from __future__ import annotations

import click


@click.command("mcp-server", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mcp_server_command(arguments: tuple[str, ...]) -> int:
    """Serve the tools of one run on standard input and output. An agent's runtime starts this, not a person."""
    from ..tools.server import main

    return main(list(arguments))
