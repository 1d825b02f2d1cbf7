"""Tokens of the HTTP server: the digest and the scope of each. The tokens themselves are never in the store.

They follow from no event: a person makes and revokes them, whether a service runs or not.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from sqlite3 import Connection
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from .connect import changing

Scope = Literal["read", "operate", "metrics"]

# As many characters of a digest as tell one token from another.
_SHORT = 12


class TokenRow(Struct, frozen=True):
    digest: str
    scope: Scope
    created_at: float

    @property
    def id(self) -> str:
        return short(self.digest)


def short(digest: str) -> str:
    """The name that people revoke a token by; it says nothing about the token."""
    return digest[:_SHORT]


def tokens(db: Connection) -> list[TokenRow]:
    """All of them, the oldest first."""
    rows = db.execute("SELECT digest, scope, created_at FROM web_tokens ORDER BY created_at, digest")
    return [TokenRow(*row) for row in rows]


def add_token(path: Path, row: TokenRow, *, only_first: bool = False) -> bool:
    """False where it was to be the first and there is one already."""
    with changing(path) as db:
        if only_first and db.execute("SELECT 1 FROM web_tokens LIMIT 1").fetchone():
            return False
        db.execute("INSERT INTO web_tokens VALUES (?, ?, ?)", astuple(row))
    return True


def remove_tokens(path: Path, ids: Collection[str] | None) -> list[TokenRow]:
    """Those with these names, or all; answers with what is gone."""
    with changing(path) as db:
        gone = [row for row in tokens(db) if ids is None or row.id in ids]
        db.executemany("DELETE FROM web_tokens WHERE digest = ?", [(row.digest,) for row in gone])
    return gone
