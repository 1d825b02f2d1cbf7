"""A document for each test."""

from __future__ import annotations

import pytest


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".git").mkdir()
    path = tmp_path / "WORKLOG.md"
    path.write_bytes(b"# Log\n")
    return path
