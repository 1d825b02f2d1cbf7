"""Which texts that were once written are no longer in a document: somebody saved an older version over them.

Line endings, spaces at the ends of lines and blank lines at the ends of a text are no difference. Every text counts
as often as it was written. The time is linear in document and journal, apart from texts with the same first line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from io import BytesIO

from .journal import Line


def missing(lines: Iterable[tuple[int, Line]], document: bytes) -> list[tuple[int, Line]]:
    """Those lines whose text is not in the document and was not written again, in their order."""
    wanted: list[tuple[int, Line]] = []
    again: set[int] = set()
    for position, line in lines:
        if line.op != "told":
            again.update(line.of)
            if line.op != "create" and line.record is not None and line.record.text.strip():
                wanted.append((position, line))
    wanted = [(position, line) for position, line in wanted if position not in again]
    found = occurrences([line.record.text.encode() for _, line in wanted if line.record is not None], document)
    absent = []
    # The latest of equal texts is the one that an older version does not have.
    for position, line in wanted:
        assert line.record is not None
        text = normal(line.record.text.encode())
        if found[text]:
            found[text] -= 1
        else:
            absent.append((position, line))
    return absent


def occurrences(texts: Iterable[bytes], document: bytes) -> Counter[bytes]:
    """How often each of the texts, in its normal form, stands in the document at the beginning of a line."""
    by_first_line: dict[bytes, Counter[bytes]] = {}
    for text in map(normal, texts):
        by_first_line.setdefault(text.partition(b"\n")[0], Counter())[text] += 1
    # Where one text begins with another, the longer one has to be tried first.
    candidates = {first: sorted(group, key=len, reverse=True) for first, group in by_first_line.items()}
    content = normal(document, whole=True)
    found: Counter[bytes] = Counter()
    for start, line in _lines(content):
        for text in candidates.get(line, ()):
            if found[text] < by_first_line[line][text] and _stands_at(content, text, start):
                found[text] += 1
                break
    return found


def normal(text: bytes, *, whole: bool = False) -> bytes:
    """The text without what editors change by themselves; unless `whole`, without blank lines around it."""
    stripped = bytearray()
    for line in BytesIO(text):
        stripped += line.rstrip() + b"\n"
    return bytes(stripped) if whole else bytes(stripped.strip(b"\n"))


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for line in BytesIO(content):
        yield start, line[:-1]
        start += len(line)


def _stands_at(content: bytes, text: bytes, start: int) -> bool:
    end = start + len(text)
    return content.startswith(text, start) and content[end : end + 1] in (b"\n", b"")
