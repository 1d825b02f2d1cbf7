"""What an agent and a hook may see of our environment: little, and never our credentials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..core.model import Issue
from ..process.identity import RUN_MARK, STORE_MARK, WORKSPACE_MARK

PASSED_ON = (
    "PATH",
    "HOME",
    "SHELL",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "TERM",
    "TZ",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "SSH_AUTH_SOCK",
)
GIT_CEILING = "GIT_CEILING_DIRECTORIES"


def passed_on(environ: Mapping[str, str], extra_names: tuple[str, ...]) -> dict[str, str]:
    """What of our environment an agent gets: the names above and those that its kind and the workflow ask for."""
    return {name: environ[name] for name in (*PASSED_ON, *extra_names) if name in environ}


def run_environment(
    environ: Mapping[str, str],
    *,
    extra_names: tuple[str, ...],
    store_id: str,
    run_id: str,
    issue: Issue,
    workspace: Path,
    attempt: int,
) -> dict[str, str]:
    """The complete environment of every process of one run; the marks let a later start find what is left of it.

    Git looks for a repository upwards, and stops below the workspaces' root: the one around it is the operator's.
    """
    return {
        **passed_on(environ, extra_names),
        GIT_CEILING: ":".join(filter(None, (str(workspace.parent), environ.get(GIT_CEILING)))),
        STORE_MARK: store_id,
        RUN_MARK: run_id,
        "SORTIE_ISSUE_ID": issue.id,
        "SORTIE_ISSUE_IDENTIFIER": issue.identifier,
        WORKSPACE_MARK: str(workspace),
        "SORTIE_ATTEMPT": str(attempt),
    }
