"""Makes the files of `sortie demo plan` from examples/plan. Run it with `python -m tests.examples.embedded`."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plan"
# What a run in place leaves, and the page, whose links lead elsewhere.
LEFT_OUT = ("plan.work", "README.md")
EMBEDDED = ROOT / "src" / "sortie" / "cli" / "templates" / "plan"


def contents(directory: Path) -> dict[str, bytes]:
    """Every file by its path that the demo needs."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not set(LEFT_OUT) & set(path.relative_to(directory).parts)
    }


if __name__ == "__main__":
    shutil.rmtree(EMBEDDED, ignore_errors=True)
    shutil.copytree(EXAMPLE, EMBEDDED, ignore=shutil.ignore_patterns(*LEFT_OUT))
