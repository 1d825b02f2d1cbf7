"""Which texts that were once written are no longer in a document: somebody saved an older version over them.

Line endings, spaces at the ends of lines and blank lines at the ends of a text are no difference. Every text counts
as often as it was written. The time is linear in document and journal, apart from texts with the same first line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO

from msgspec import Struct

from .journal import Line, Record

_ENDS = (b" \n", b"\t\n", b"\r", b"\v", b"\f")


class Missing(Struct, frozen=True):
    """A record whose text is not in the document; `position` is that of its line in the journal."""

    position: int
    record: Record
    is_told: bool


def missing(lines: Iterable[tuple[int, Line]], document: bytes) -> list[Missing]:
    """What is not in the document and was not written again, in the order in which it was written."""
    wanted: list[tuple[int, Record, bytes]] = []
    again: set[int] = set()
    told: set[int] = set()
    for position, line in lines:
        (told if line.op == "told" else again).update(line.of)
        if line.op in ("told", "create") or line.record is None:
            continue
        if text := normal(line.record.text.encode()):
            wanted.append((position, line.record, text))
    wanted = [one for one in wanted if one[0] not in again]
    found = occurrences([text for _, _, text in wanted], document)
    absent = []
    # The latest of equal texts is the one that an older version does not have.
    for position, record, text in wanted:
        found[text] -= 1
        if found[text] < 0:
            absent.append(Missing(position, record, position in told))
    return absent


def occurrences(texts: Sequence[bytes], document: bytes) -> Counter[bytes]:
    """How often each of these texts, which are in their normal form, stands in the document as lines of its own."""
    most = Counter(texts)
    # Where one text begins with another, the longer one has to be tried first.
    by_first_line: dict[bytes, list[bytes]] = {}
    for text in sorted(most, key=len, reverse=True):
        by_first_line.setdefault(text.partition(b"\n")[0], []).append(text)
    content = _without_ends(document)
    found: Counter[bytes] = Counter()
    for start, line in _lines(content):
        for text in by_first_line.get(line, ()):
            if found[text] < most[text] and _stands_at(content, text, start):
                found[text] += 1
                break
    return found


def normal(text: bytes) -> bytes:
    """The text without what editors change by themselves."""
    return _without_ends(text).strip(b"\n")


def _without_ends(text: bytes) -> bytes:
    """Every line without the white space at its end, and with a line feed."""
    if not any(end in text for end in _ENDS):
        return text if text.endswith(b"\n") else text.rstrip() + b"\n"
    stripped = bytearray()
    for line in BytesIO(text):
        stripped += line.rstrip() + b"\n"
    return bytes(stripped)


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for line in BytesIO(content):
        yield start, line[:-1]
        start += len(line)


def _stands_at(content: bytes, text: bytes, start: int) -> bool:
    end = start + len(text)
    return content.startswith(text, start) and content[end : end + 1] in (b"\n", b"")
