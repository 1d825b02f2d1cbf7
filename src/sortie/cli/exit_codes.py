"""The exit codes, which scripts rely on."""

from __future__ import annotations

import click

DONE = 0
FAILED = 1
USAGE = 2
UNFINISHED = 3

_DECIDED = "sortie.exit_code"


def decided(code: int) -> int:
    """The exit code of what was done, settled before it is told: it stands, whether anybody reads that or not."""
    click.get_current_context().meta[_DECIDED] = code
    return code


def decided_before(ctx: click.Context) -> int:
    code: int = ctx.meta.get(_DECIDED, DONE)
    return code
