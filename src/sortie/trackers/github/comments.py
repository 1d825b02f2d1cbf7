"""Comments of an issue: all that GitHub lets one have are read, and what is written keeps to its limit."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...core.model import Comment
from ...core.observe import mark_of
from ..long_comments import LONGEST_MARK, kept
from ..rest_reply import TooLarge
from .api import GitHubApi
from .records import Record, read_comment

PAGE = 100
# Of comments that are long, a page of so many may be too large an answer; each number is a part of the one before.
SMALLER = {PAGE: 20, 20: 4, 4: 1}
# 2,500 comments: after so many GitHub takes no more of most people. Were there fewer pages, each comment of a
# stranger could push one out that counts, and that would look as if a person had changed something.
MOST_PAGES = 25
LONGEST_BODY = 65_536
CUT = "\n\n*(The rest was too long for a comment on GitHub and is left out.)*"


async def read_comments(api: GitHubApi, record: Record, most_pages: int = MOST_PAGES) -> tuple[Comment, ...]:
    """Oldest first; of too many the last ones, below a note that says so."""
    first = max((record.comments + PAGE - 1) // PAGE - most_pages + 1, 1)
    note = f"[The first {(first - 1) * PAGE} comments are left out.]"
    following: dict[str, str] | None = {"page": str(first)} if first > 1 else {}
    found: dict[str, Comment] = {}
    for page in range(first, first + most_pages + 1):
        if following is None:
            break
        comments, following = await _page(api, record, page, following)
        found |= {comment.id: comment for comment in comments}
    return (*([Comment("", "", note)] if first > 1 else ()), *found.values())


async def _page(
    api: GitHubApi, record: Record, page: int, asked: dict[str, str], size: int = PAGE
) -> tuple[list[Comment], dict[str, str] | None]:
    """The comments of one page, and what asks for the next one, if there is one."""
    try:
        reply = await api.get(f"/issues/{record.number}/comments", {"per_page": str(size), **asked})
    except TooLarge:
        if size not in SMALLER:
            raise
        return await _in_parts(api, record, page, size)
    raws = reply.read(list[Any])
    comments = [replace(comment, body=kept(comment.body)) for comment in map(read_comment, raws) if comment]
    # A full page stays as it is when another one follows it, and its tag may do so too: then the number counts.
    is_more = page * size < record.comments
    return comments, reply.next_page or ({"page": str(page + 1)} if is_more else None)


async def _in_parts(
    api: GitHubApi, record: Record, page: int, size: int
) -> tuple[list[Comment], dict[str, str] | None]:
    """The same page in smaller ones."""
    parts = size // SMALLER[size]
    found: list[Comment] = []
    following: dict[str, str] | None = None
    for part in range((page - 1) * parts + 1, page * parts + 1):
        comments, following = await _page(api, record, part, {"page": str(part)}, SMALLER[size])
        found += comments
        if following is None:
            break
    return found, following and {"page": str(page + 1)}


def fitting(body: str) -> str:
    """The body as GitHub takes it. The line at its end by which we know our comments stays whole."""
    body = body.encode("utf-8", "replace").decode("utf-8")
    if _length(body) <= LONGEST_BODY:
        return body
    text, end = body, CUT
    if mark_of(body):
        last = body.rstrip().splitlines()[-1]
        if len(last) <= LONGEST_MARK:
            text, end = body.rstrip()[: -len(last)], f"{CUT}\n\n{last}"
    return _shortened(text, LONGEST_BODY - _length(end)) + end


def _length(text: str) -> int:
    """In the units that GitHub's limit is said to have: a character outside the basic plane may count twice."""
    return len(text.encode("utf-16-le")) // 2


def _shortened(text: str, most: int) -> str:
    return text.encode("utf-16-le")[: 2 * most].decode("utf-16-le", "ignore")
