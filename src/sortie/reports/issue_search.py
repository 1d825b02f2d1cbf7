"""Finds issues by a part of their identifier or title."""

from __future__ import annotations

from sqlite3 import Connection

from msgspec import Struct

from ..core.redact import Hide
from ..store.load import snapshot
from .runs import NEWEST, like

MOST_FOUND = 25


class Found(Struct, frozen=True, kw_only=True):
    """`title` is empty if the tracker no longer lists the issue."""

    identifier: str
    title: str


def issues_with(db: Connection, text: str, *, hide: Hide) -> list[Found]:
    """Issues that the tracker lists first, then those of the newest finished runs."""
    wanted = like(text)
    shown = """SELECT identifier, title FROM (
                   SELECT identifier, iif(json_valid(data), json_extract(data, '$.title'), '') AS title FROM issues
               ) WHERE identifier LIKE :text ESCAPE '\\' OR title LIKE :text ESCAPE '\\'
               ORDER BY identifier LIMIT :most"""
    ended = f"""SELECT DISTINCT identifier FROM run_history
                WHERE {NEWEST} AND identifier LIKE :text ESCAPE '\\' ORDER BY id DESC LIMIT :most"""
    given = {"text": wanted, "most": MOST_FOUND}
    with snapshot(db):
        titles = {identifier: hide(title or "") for identifier, title in db.execute(shown, given)}
        names = [*titles, *(name for (name,) in db.execute(ended, given) if name not in titles)]
    found = [Found(identifier=name, title=titles.get(name, "")) for name in names[:MOST_FOUND]]
    # Hidden text is not searched: otherwise a secret could be guessed letter by letter.
    return [one for one in found if text.casefold() in f"{one.identifier}\n{one.title}".casefold()]
