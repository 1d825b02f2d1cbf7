"""Cache of answers with an ETag, so that unchanged data is not sent again; and the link to the next page."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

MOST_BYTES = 32 * 1024 * 1024
MOST_ANSWERS = 2000

_TAG = re.compile("[!-~]{1,1000}")
_LINK = re.compile(r'<(?P<address>[^<>]*+)>(?P<rest>(?:[^<,"]|"[^"]*+")*+)')
_RELATION = re.compile(r';\s*+rel\s*+=\s*+"?(?P<names>[^";]*+)', re.IGNORECASE)


class Known(Struct, frozen=True):
    etag: str
    body: bytes
    next_page: dict[str, str] | None

    @property
    def size(self) -> int:
        return len(self.body) + len(self.etag) + len(urlencode(self.next_page or {}))


class ResponseCache:
    """The answers used last, bounded in number and size. What is not here is asked for in full, no more."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._answers: OrderedDict[str, Known] = OrderedDict()

    def find(self, path: str, params: Mapping[str, str]) -> Known | None:
        key = _key(path, params)
        found = self._answers.get(key)
        if found:
            self._answers.move_to_end(key)
        return found

    def keep(
        self, path: str, params: Mapping[str, str], etag: str, body: bytes, next_page: dict[str, str] | None
    ) -> None:
        key = _key(path, params)
        before = self._answers.pop(key, None)
        self._size -= before.size if before else 0
        # A tag that cannot be told to the server again is none.
        known = Known(etag, body, next_page)
        if not _TAG.fullmatch(etag) or known.size > self._most:
            return
        self._answers[key] = known
        self._size += known.size
        while self._size > self._most or len(self._answers) > MOST_ANSWERS:
            _, oldest = self._answers.popitem(last=False)
            self._size -= oldest.size


def _key(path: str, params: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(sorted(params.items()))}"


def next_page(headers: Mapping[str, str]) -> dict[str, str] | None:
    """The parameters in the link to the next page. Its host and path are not believed: a key goes nowhere else.

    Raises `ValueError` for a link from which nobody knows how to go on: to stop there would hide what follows.
    """
    for link in _LINK.finditer(headers.get("link", "")):
        relation = _RELATION.search(link["rest"])
        if relation and "next" in relation["names"].lower().split():
            following = dict(parse_qsl(urlsplit(link["address"].strip()).query))
            if not following:
                raise ValueError("the link to the next page has no parameters")
            return following
    return None
