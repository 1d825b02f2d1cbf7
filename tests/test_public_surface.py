"""Everything promised by `import sortie` is there, is loaded on first use, and costs nothing before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sortie


@pytest.mark.parametrize("name", sortie.__all__)
def test_every_public_name_resolves(name):
    assert getattr(sortie, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sortie.nothing  # noqa: B018


def test_reading_a_status_loads_the_standard_library_only(tmp_path):
    """The protocol functions are usable without the rest."""
    code = (
        "import sys, sortie; print(sortie.read_status(__import__('pathlib').Path(sys.argv[1])).token);"
        "print(sorted(m for m in ('msgspec', 'anyio', 'yaml', 'jinja2', 'click', 'sqlite3') if m in sys.modules))"
    )
    (tmp_path / ".sortie").mkdir()
    (tmp_path / ".sortie" / "status").write_text("blocked\n")
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines() == ["blocked", "[]"]
