"""A fake model that serves for one test, and each of the wires in turn."""

from __future__ import annotations

import pytest

from . import FakeModel
from .client import DIALECTS


@pytest.fixture
def model():
    with FakeModel() as model:
        yield model


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request):
    return request.param
