"""No file grows past what one can keep in mind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 400


def python_files() -> Iterator[Path]:
    for folder in ("src", "tests", "bench", "examples"):
        yield from (ROOT / folder).rglob("*.py")
    yield ROOT / "dev.py"


def test_no_python_file_has_more_than_four_hundred_lines():
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in python_files()}
    assert len(lengths) > 50
    too_long = [f"{path.relative_to(ROOT)}: {lines} lines" for path, lines in lengths.items() if lines > LIMIT]
    assert too_long == []
