"""The rules in force: those of the workflow, or those that a service used last."""

from __future__ import annotations

from sqlite3 import Connection

from ..core.policy import Policy
from ..store.queries import last_policy
from ..workflow.config import Config


def rules_in_force(db: Connection, config: Config | None, *, broken: bool, served: bool) -> Policy | None:
    """`config` is None where no workflow tells them: the store is that of a plan, or was named itself. None where
    nobody knows them: workflow or plan are broken, and no service goes by what they said before."""
    if broken and not served:
        return None
    return last_policy(db) if broken or config is None else config.policy()
