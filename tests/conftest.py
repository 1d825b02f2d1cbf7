"""What every test gets: one async backend, the width of no terminal, and no property that a busy machine breaks."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("sortie", deadline=None)
settings.load_profile("sortie")

# The test runner tells its workers how wide its own terminal is, and they would tell it to whatever they start;
# a library it loads says so to the C library alone, which Python does not see.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
