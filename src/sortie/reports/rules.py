"""Which rules are in force: those of the workflow, or the last good ones that a service goes on with."""

from __future__ import annotations

from sqlite3 import Connection

from ..core.policy import Policy
from ..store.queries import last_policy
from ..workflow.config import Config


def rules_in_force(db: Connection, config: Config, *, broken: bool, served: bool) -> Policy | None:
    """None where nobody knows them: the workflow is broken, and no service goes by what it said before."""
    if not broken:
        return config.policy()
    return last_policy(db) if served else None
