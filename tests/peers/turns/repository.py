"""A repository that two agents share, with real git, for tests of what happens around a turn."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sortie.peers.place import Place, place_at

CHARTER = """\
# Session Charter

Session ID: S-1

## Roster

| Role | Agent |
|---|---|
| Maintainer | Mia |
| Builder | Alice |
| Builder | Bob |

## Lane ownership

| Lane | Owner | Files/Scope |
|---|---|---|
| front | Alice | `alice/` |
| back | Bob | `bob/` |
| docs | shared | `docs/` |

## Acceptance criteria

- it works
"""
LOG = """\
# WORKLOG

Now Working (Alice): idle
Now Working (Bob): parser
Maintainer Focus: release
Next Review Checkpoint: none

## Decision Index

| Decision | Owner | Timestamp | Section |
|---|---|---|---|
| Use TOML | Mia | 2026-01-01T10:00:00Z | Format |

## Session 1 — 2026-01-01

### 2026-01-01T10:00:00Z — Alice: Layout

I laid out the files.

### 2026-01-01T11:00:00Z — Bob: Parser

I wrote the parser.
It is fast.
"""
_PEOPLE = {
    "GIT_AUTHOR_NAME": "Mia",
    "GIT_AUTHOR_EMAIL": "mia@example.org",
    "GIT_COMMITTER_NAME": "Mia",
    "GIT_COMMITTER_EMAIL": "mia@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Repository:
    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.sh(f"git init -q -b main {' '.join(options)} .")

    @property
    def place(self) -> Place:
        return place_at(self.root)

    def sh(self, script: str, *, check: bool = True) -> str:
        """What an agent or a person does in it."""
        done = subprocess.run(
            ["bash", "-peuc", script],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root.parent), **_PEOPLE},
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def commit(self, message: str = "work") -> str:
        self.sh(f"git add -A && git commit -q --allow-empty -m '{message}'")
        return self.sh("git rev-parse HEAD")


def shared_repository(root: Path) -> Repository:
    """With a charter, a work log, and a file of each agent."""
    repository = Repository(root)
    repository.write("CHARTER.md", CHARTER)
    repository.write("WORKLOG.md", LOG)
    repository.write("alice/a.py", "a = 1\n")
    repository.write("bob/b.py", "b = 1\n")
    repository.write("docs/guide.md", "Guide\n")
    repository.write("README.md", "Readme\n")
    repository.commit("first")
    return repository
