"""Holds the workflow in force: what changed in its files takes effect, what broke them leaves it as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..file_watch import FileWatch
from .checks import NO_KINDS, Kinds
from .config import Config
from .loader import Inspect, Workflow, examine, load, nothing_more
from .variables import env_file_of


class Unchanged(Struct, frozen=True):
    pass


class Changed(Struct, frozen=True):
    """`needs_restart` names the keys that differ in the file from those the service was started with.

    In the workflow they are what they were at the start: until the restart such a change changes nothing.
    """

    workflow: Workflow
    needs_restart: tuple[str, ...] = ()


class Broken(Struct, frozen=True):
    """The new content cannot be used; the workflow before it stays in force."""

    problems: tuple[str, ...]


Reload = Unchanged | Changed | Broken


class Reloader:
    """Holds the workflow in force. The first load must succeed; later ones cannot make it worse."""

    def __init__(
        self,
        path: Path,
        *,
        environ: Mapping[str, str],
        env_file: Path | None = None,
        kinds: Kinds = NO_KINDS,
        inspect: Inspect = nothing_more,
    ) -> None:
        self._path = path
        self._environ = environ
        self._env_file = env_file_of(environ, env_file)
        self._kinds = kinds
        self._inspect = inspect
        self._watch = FileWatch([path, self._env_file] if self._env_file else [path])
        self.current = load(path, environ=environ, env_file=env_file, kinds=kinds, inspect=inspect)
        self._seen = self.current.digest

    def refresh(self) -> Reload:
        """Look at the files again; each content is reported once."""
        if not self._watch.changed():
            return Unchanged()
        found = examine(
            self._path, environ=self._environ, env_file=self._env_file, kinds=self._kinds, inspect=self._inspect
        )
        if found.digest == self._seen:
            return Unchanged()
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
    if old.workspace.root != new.workspace.root:
        needs_restart.append("workspace.root")
        new = replace(new, workspace=replace(new.workspace, root=old.workspace.root))
    return new, tuple(needs_restart)
