"""What every test gets: one async backend, the width of no terminal, and no property that a busy machine breaks."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from sortie.process.orphans import is_subreaper

settings.register_profile("sortie", deadline=None)
settings.load_profile("sortie")

# The test runner tells its workers how wide its own terminal is, and they would tell it to whatever they start;
# a library it loads says so to the C library alone, which Python does not see.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# No service that a test starts takes the port that people use; who wants a server asks for one.
os.environ["SORTIE_SERVER_PORT"] = "0"

# Who starts the tests in the background, or under `nohup`, has them ignore these, and so would whatever they start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def orphans_of_later_tests_go_to_init() -> Iterator[None]:
    """A test that runs an orchestrator in this process makes it the parent of all orphans. What later tests leave
    behind would stay as zombies, hundreds of them, among which every service then looks for its own."""
    yield
    if is_subreaper():
        ctypes.PyDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
