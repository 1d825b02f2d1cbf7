"""A place for a store, and a store in it."""

from __future__ import annotations

import pytest

from sortie.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sortie.db"


@pytest.fixture
async def store(path):
    async with Store.open(path, holder={"workflow": "WORKFLOW.md"}) as opened:
        yield opened
