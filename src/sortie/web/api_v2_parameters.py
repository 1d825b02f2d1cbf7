"""Parameters that several operations of `/api/v2` share, and the lookup of the issue that one names."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Annotated

from msgspec import Meta

from ..reports.runs import LARGEST_PAGE
from ..store.queries import find_issue
from .json_api import Problem
from .operation import MOST_NAME, MOST_NUMBER

MOST_AT_ONCE = 1000

Count = Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)]
Number = Annotated[int, Meta(ge=0, le=MOST_NUMBER)]
Page = Annotated[int, Meta(ge=1, le=1_000_000)]
PageSize = Annotated[int, Meta(ge=1, le=LARGEST_PAGE)]
Name = Annotated[str, Meta(max_length=MOST_NAME)]


def issue_meant(db: Connection, text: str) -> str:
    """The id of the issue that an id or an identifier means."""
    issue_id = find_issue(db, text)
    if issue_id is None:
        raise Problem(404, "issue_not_found", f"{text} is not known here.")
    return issue_id
