"""The pages of the dashboard, one module each: `parts` is what they share, `commands` handles their buttons.

All of them work without scripts.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from .. import static
from ..site import Site
from . import commands, health, issue, money, now, peers, plan, runs


def routes(site: Site) -> list[BaseRoute]:
    found = static.routes()
    for part in (now, commands, issue, runs, money, health, plan, peers):
        found += part.routes(site)
    return found
