"""Makes the files of `sortie demo plan` and `sortie demo peers` from the examples that they show.

Run it with `python -m tests.examples.embedded`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TEMPLATES = ROOT / "src" / "sortie" / "cli" / "templates"


class Embedded(Struct, frozen=True):
    """`left_out` is what a run in place leaves, and what only a reader of the example needs."""

    example: Path
    copy: Path
    left_out: tuple[str, ...]

    def contents(self, directory: Path) -> dict[str, bytes]:
        """Every file by its path that the demo needs."""
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(directory.rglob("*"))
            if path.is_file() and not set(self.left_out) & set(path.relative_to(directory).parts)
        }


PLAN = Embedded(EXAMPLES / "plan", TEMPLATES / "plan", ("plan.work", "README.md"))
PEERS = Embedded(
    EXAMPLES / "peers",
    TEMPLATES / "peers_demo",
    ("README.md", "session.sh", "WORKLOG.md", "MAILBOX.md", ".git", ".sortie", ".sortie.lock"),
)


if __name__ == "__main__":
    for one in (PLAN, PEERS):
        shutil.rmtree(one.copy, ignore_errors=True)
        shutil.copytree(one.example, one.copy, ignore=shutil.ignore_patterns(*one.left_out))
