"""Holds the workflow in force: what changed in its files takes effect, what broke them leaves it as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..file_watch import FileWatch
from .config import Config
from .loader import Circumstances, Inspect, Workflow, examine, load
from .variables import env_file_of


class Changed(Struct, frozen=True):
    """`needs_restart` names the keys that differ in the file from those the service was started with.

    In the workflow they are what they were at the start: until the restart such a change changes nothing.
    """

    workflow: Workflow
    needs_restart: tuple[str, ...] = ()


class Broken(Struct, frozen=True):
    """The new content cannot be used; the workflow before it stays in force."""

    problems: tuple[str, ...]


class Reloader:
    """Holds the workflow in force. The first load must succeed; later ones cannot make it worse. `inspect_first`
    stands for `inspect` at the first one, when there is time."""

    def __init__(
        self, path: Path, *, inspect_first: Inspect | None = None, **circumstances: Unpack[Circumstances]
    ) -> None:
        env_file = env_file_of(circumstances["environ"], circumstances.get("env_file"))
        self._path = path
        self._circumstances = circumstances
        self._watch = FileWatch([path, env_file] if env_file else [path])
        first: Circumstances = {**circumstances}
        if inspect_first:
            first["inspect"] = inspect_first
        self.current = load(path, **first)
        self._seen = self.current.digest

    def refresh(self) -> Changed | Broken | None:
        """Look at the files again; each content is reported once, and None where there is no new one."""
        if not self._watch.changed():
            return None
        found = examine(self._path, **self._circumstances)
        if found.digest == self._seen:
            return None
        self._seen = found.digest
        if found.workflow is None:
            return Broken(found.errors)
        config, needs_restart = _held_back(self.current.config, found.workflow.config)
        self.current = replace(found.workflow, config=config)
        return Changed(self.current, needs_restart)


def _held_back(old: Config, new: Config) -> tuple[Config, tuple[str, ...]]:
    """The new settings as far as they take effect without a restart, and the keys that do not."""
    needs_restart = []
    if old.db_path != new.db_path:
        needs_restart.append("db_path")
        new = replace(new, db_path=old.db_path)
    if old.tracker.kind != new.tracker.kind:
        # All that is said about a tracker is said about one of its kind, the option block and the key included.
        kind = old.tracker.kind
        needs_restart.append("tracker.kind")
        options = {**new.options, kind: old.options.get(kind, {})}
        secrets = tuple(dict.fromkeys((*new.secrets, *old.secrets)))
        new = replace(new, tracker=old.tracker, options=options, secrets=secrets)
    elif old.tracker.project != new.tracker.project:
        # Everything that is known is known of its issues, and the store may have to be another one.
        needs_restart.append("tracker.project")
        new = replace(new, tracker=replace(new.tracker, project=old.tracker.project))
    if old.workspace.root != new.workspace.root:
        needs_restart.append("workspace.root")
        new = replace(new, workspace=replace(new.workspace, root=old.workspace.root))
    if old.server != new.server:
        needs_restart.append("server")
        secrets = tuple(dict.fromkeys((*new.secrets, *old.secrets)))
        new = replace(new, server=old.server, secrets=secrets)
    return new, tuple(needs_restart)
