"""Notices changed files by polling, and keeps the last good workflow while its file is broken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from .checks import NO_KINDS, Kinds
from .config import Config
from .loader import Inspect, Workflow, examine, load, nothing_more
from .variables import env_file_of

# Two changes within one tick of the file system's clock can look the same from outside. A file that changed
# so recently is reported once more, when its time stamps can be trusted.
_CLOCK_TICK_NS = 50_000_000

Signature = tuple[int, int, int, int]


class FileWatch:
    """Tells which files look different from the last time it was asked; a missing file is a look too.

    `clock` gives the time since the epoch in nanoseconds, as the file system does.
    """

    def __init__(self, paths: Iterable[Path], *, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._seen: dict[Path, Signature | None] = {path: _signature(path) for path in paths}
        self._recent = {path for path, signature in self._seen.items() if self._is_recent(signature)}

    def changed(self) -> set[Path]:
        changed: set[Path] = set()
        for path, before in self._seen.items():
            now = _signature(path)
            if now != before or path in self._recent:
                changed.add(path)
            self._seen[path] = now
            if self._is_recent(now):
                self._recent.add(path)
            else:
                self._recent.discard(path)
        return changed

    def _is_recent(self, signature: Signature | None) -> bool:
        return signature is not None and 0 <= self._clock() - signature[0] < _CLOCK_TICK_NS


def _signature(path: Path) -> Signature | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


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
