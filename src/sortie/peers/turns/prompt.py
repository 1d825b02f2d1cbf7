"""What an agent is told at the beginning of its turn: fixed words of ours, and everything else as marked data.

Whatever anybody wrote, in the work log, the mailbox, the charter, a file name or a subject, stands in a block
between two fences that it cannot close: the fence is longer than any of its own, and bears a mark that no text of
this prompt contains. Outside of these blocks stand our own words, numbers, times and names that were checked. Every
text is bounded, and so are all together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from ...protocol.foreign_text import escape, time_text
from ...protocol.marked_text import fenced, harmless, unused_mark
from ..roster import LONGEST_NAME
from . import prompt_words as words

TurnKind = Literal["work", "review", "mailbox"]

LONGEST_TEXT = 4_000
LONGEST_TASK = 16_000
LONGEST_CHARTER = 8_000
LONGEST_NEWS = 24_000
LONGEST_MAIL = 16_000
LONGEST_FILES = 4_000
MOST_FILES = 50
_SAMPLE = "Somebody wrote this."
_NOT_IN_A_NAME = re.compile(r"[|`<>()\[\]{}:,/\\#*]")


class Quote(Struct, frozen=True, kw_only=True):
    """A text of somebody's. `author` is who is known to have written it, by the run or command that did; empty
    where nobody knows. `by_us`: the orchestrator wrote it down for the author. `at` is when, in seconds."""

    text: str
    author: str = ""
    by_us: bool = False
    at: float | None = None


class Interrupted(Struct, frozen=True, kw_only=True):
    """A turn that a crash ended, and what it had changed."""

    number: int
    agent: str
    task: str
    began: float
    files: tuple[str, ...] = ()


class Lanes(Struct, frozen=True, kw_only=True):
    """`own` are the paths that are the agent's, `others` those of anybody else, each with its owner."""

    own: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


class Briefing(Struct, frozen=True, kw_only=True):
    """All that a prompt is made of. `news` is what the log has had since the agent's last turn, the oldest first;
    `news_before` is how many entries came before these. `mail` is what waits for it, in the order of reading.
    `charter` are governance and criteria, as text. `has_tools`: the agent can call the tools of Sortie, and
    `command` is how it starts Sortie in a shell."""

    agent: str
    maintainer: str
    number: int
    kind: TurnKind
    task: str = ""
    charter: str = ""
    lanes: Lanes = Lanes()
    news: tuple[Quote, ...] = ()
    news_before: int = 0
    mail: tuple[Quote, ...] = ()
    interrupted: tuple[Interrupted, ...] = ()
    has_tools: bool = True
    command: str = "sortie"


def compose(briefing: Briefing, token: str) -> str:
    """The prompt. `token` is a text that nobody could know before, from which the mark of its blocks is made."""
    blocks = _Blocks(_mark(token, briefing))
    agent, maintainer = _name(briefing.agent), _name(briefing.maintainer)
    sample = blocks.data(_SAMPLE)
    parts = [
        f"# Turn {briefing.number}: {agent}",
        words.INTRODUCTION.format(agent=agent, maintainer=maintainer, number=briefing.number, sample=sample),
        *_charter(briefing, blocks),
        *_interrupted(briefing, blocks),
        *_news(briefing, blocks),
        *_mail(briefing, blocks),
        "## Your task",
        *_task(briefing, blocks),
        "## How to record it",
        words.BY_COMMAND.format(sortie=briefing.command),
        *((words.BY_TOOL,) if briefing.has_tools else ()),
        "## Rules",
        words.RULES,
    ]
    return "\n\n".join(parts) + "\n"


def _charter(briefing: Briefing, blocks: _Blocks) -> Iterator[str]:
    lanes = briefing.lanes
    if not briefing.charter and not lanes.own and not lanes.others:
        return
    yield "## The charter"
    if briefing.charter:
        yield "What was agreed for this session; the whole of it is `CHARTER.md`:"
        yield blocks.data(briefing.charter, LONGEST_CHARTER)
    if lanes.own:
        yield "Your lane, the only files that you may change:"
        yield blocks.data("\n".join(map(_one_line, lanes.own)), LONGEST_CHARTER // 2)
    elif lanes.others:
        yield "No lane is yours: change no file but the work log and the mailbox."
    if lanes.others:
        yield "Lanes of others, which are not yours to change:"
        owned = "\n".join(f"{_one_line(owner)}: {_one_line(paths)}" for owner, paths in lanes.others)
        yield blocks.data(owned, LONGEST_CHARTER // 2)


def _interrupted(briefing: Briefing, blocks: _Blocks) -> Iterator[str]:
    for turn in briefing.interrupted:
        yield f"## Turn {turn.number} was interrupted"
        whose = "your own" if turn.agent.casefold() == briefing.agent.casefold() else f"that of {_name(turn.agent)}"
        count = f"{len(turn.files)} file{'' if len(turn.files) == 1 else 's'}"
        these = "these files" if len(turn.files) <= MOST_FILES else f"the first {MOST_FILES} of these files"
        yield (
            f"It was {whose}, begun at {time_text(turn.began)}, and ended without a word of the agent, so what it "
            f"left may be unfinished. It had changed {count}. Its task, and {these}:"
        )
        yield blocks.data("\n".join(map(_one_line, (turn.task, *turn.files[:MOST_FILES]))), LONGEST_FILES)


def _news(briefing: Briefing, blocks: _Blocks) -> Iterator[str]:
    yield "## What happened since your last turn"
    if not briefing.news:
        yield "Nothing was recorded in the work log."
        return
    from_last = reversed([*enumerate(briefing.news, briefing.news_before + 1)])
    kept = _within(LONGEST_NEWS, (_quoted(f"Entry {number}", quote, blocks) for number, quote in from_last))
    total = briefing.news_before + len(briefing.news)
    yield f"The work log has {_count(total, 'new entry', 'new entries')}, the oldest first."
    if left := total - len(kept):
        yield f"Only the last {len(kept)} are here. {left} more: `{briefing.command} worklog since`."
    yield from reversed(kept)


def _mail(briefing: Briefing, blocks: _Blocks) -> Iterator[str]:
    yield "## Your mail"
    if not briefing.mail:
        yield "No message waits for you."
        return
    in_order = enumerate(briefing.mail, 1)
    kept = _within(LONGEST_MAIL, (_quoted(f"Message {number}", quote, blocks) for number, quote in in_order))
    yield f"{_count(len(briefing.mail), 'message waits', 'messages wait')} for you, the most urgent first."
    yield from kept
    if left := len(briefing.mail) - len(kept):
        yield f"{left} more: `{briefing.command} mailbox check`."


def _task(briefing: Briefing, blocks: _Blocks) -> Iterator[str]:
    if briefing.task:
        yield "In the words of the maintainer:"
        yield blocks.task(briefing.task)
    is_idle = briefing.kind == "work" and not briefing.task
    yield words.WORK_WITHOUT_TASK if is_idle else words.ABOUT[briefing.kind]


def _quoted(what: str, quote: Quote, blocks: _Blocks) -> str:
    when = f", {time_text(quote.at)}" if quote.at is not None and 0 <= quote.at < 253_402_300_800 else ""
    return f"{what}{when}; {_provenance(quote)}:\n\n{blocks.data(quote.text)}"


def _provenance(quote: Quote) -> str:
    if not quote.author:
        return "unverified: nobody knows who wrote it, and the name in it is its own claim"
    return (
        f"written by: {_name(quote.author)} (recorded by sortie)"
        if quote.by_us
        else f"written by: {_name(quote.author)}"
    )


class _Blocks:
    """`mark` is in no text that goes into a block."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def data(self, text: str, most: int = LONGEST_TEXT) -> str:
        return self._block("data", text, most)

    def task(self, text: str) -> str:
        return self._block("task", text, LONGEST_TASK)

    def _block(self, word: str, text: str, most: int) -> str:
        shown, left = harmless(text[:most])[:most], max(len(text) - most, 0)
        block = fenced(f"{word}-{self._mark}", shown)
        return f"{block}\n({left:,} more characters are left out.)" if left else block


def _mark(token: str, briefing: Briefing) -> str:
    texts = [_SAMPLE, *(text[:LONGEST_TASK] for text in _texts(briefing))]
    return unused_mark(token, (*texts, *map(harmless, texts)))


def _texts(briefing: Briefing) -> Iterator[str]:
    yield from (briefing.task, briefing.charter, *briefing.lanes.own)
    for pair in briefing.lanes.others:
        yield from pair
    for quote in (*briefing.news, *briefing.mail):
        yield quote.text
    for turn in briefing.interrupted:
        yield from (turn.task, *turn.files)


def _one_line(text: str) -> str:
    return escape(text[:LONGEST_TEXT])


def _within(most: int, parts: Iterable[str]) -> list[str]:
    """As many as fit, and always the first."""
    kept, length = list[str](), 0
    for part in parts:
        length += len(part)
        if length > most and kept:
            break
        kept.append(part)
    return kept


def _name(name: str) -> str:
    """A name outside of a block is one that can say nothing else."""
    is_plain = name.isprintable() and 0 < len(name) <= LONGEST_NAME and not _NOT_IN_A_NAME.search(name)
    return name if is_plain else "somebody whose name cannot be shown here"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
