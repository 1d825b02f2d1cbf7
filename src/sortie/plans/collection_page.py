"""The results of a plan for people, as one page of Markdown in the order of the plan. Pure.

Whatever an agent wrote stands in quotes or as code: it adds no heading and no entry to ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..protocol.foreign_text import escape
from .collection import APART, MANIFEST, Collection, TaskResult
from .criteria import Criterion
from .markdown import as_body, code, one_line
from .picture import counted

LONGEST_SUMMARY = 4_000
MOST_LISTED = 100


def summary_page(collection: Collection) -> str:
    paragraphs = [f"# {collection.plan.name}: results"]
    if collection.plan.goal:
        paragraphs.append(as_body(collection.plan.goal))
    paragraphs.append("\n".join(_totals(collection)))
    if look := list(_to_look_at(collection)):
        paragraphs += ["## To look at", "\n".join(look)]
    paragraphs.append("## Tasks")
    for result in collection.results:
        paragraphs += _task(collection, result)
    return "\n\n".join(paragraphs) + "\n"


def _totals(collection: Collection) -> Iterator[str]:
    results = collection.results
    states = counted(Counter(result.account.state for result in results))
    yield f"- {_count(len(results), 'task')}: {states}"
    criteria = [one for result in results for one in result.criteria]
    met = Counter(one.met for one in criteria)
    yield f"- {_count(len(criteria), 'success criterion', 'success criteria')}: " + ", ".join(
        f"{met[value]:,} {called}"
        for value, called in ((True, "met"), (False, "not met"), (None, "not shown"))
        if met[value] or value
    )
    files = {file.path: file.size for result in results for file in result.files}
    size = _count(sum(files.values()), "byte")
    yield f"- {_count(len(files), 'file')}, {size}; `{MANIFEST}` has the hash of each"
    yield "- " + _used(
        sum(result.account.seconds for result in results),
        sum(result.account.tokens for result in results),
        sum(result.account.cost_usd for result in results),
    )


def _to_look_at(collection: Collection) -> Iterator[str]:
    for result in collection.results:
        account = result.account
        if account.state != "completed":
            yield f"- {code(result.name)} is {account.state}{_because(account.note)}"
        open_ones = sum(not one.met for one in result.criteria)
        if account.is_completed and open_ones:
            what = _count(open_ones, "success criterion", "success criteria")
            yield f"- {code(result.name)}: {what} not met, or not shown"
        for what, paths in (
            ("changed since it was delivered", result.changed),
            ("came after the task was completed", result.added),
            ("refused", result.refused),
        ):
            if paths:
                yield f"- {code(result.name)}: {_count(len(paths), 'path')} not collected ({what})"
    for path, agents in collection.conflicts[:MOST_LISTED]:
        yield f"- {code(path)} is not the same from {', '.join(map(code, agents))}: see `{APART}/`"
    yield from _more(collection.conflicts)


def _task(collection: Collection, result: TaskResult) -> Iterator[str]:
    task, account = collection.plan.by_name[result.name], result.account
    yield f"### {result.name}: {account.state}"
    yield as_body(one_line(task.title))
    if account.state != "completed" and account.note:
        yield f"Because{_because(account.note)}"
    if result.criteria:
        yield "Success criteria, as its summary shows them:" if account.is_completed else "Success criteria:"
        yield "\n".join(map(_criterion, result.criteria))
    if result.files:
        yield "Deliverables:" if account.is_completed else "What it left:"
        yield _listed([f"{code(file.path)} ({_count(file.size, 'byte')})" for file in result.files])
    if odd := list(_odd(result)):
        yield "What was odd:"
        yield _listed(odd)
    if result.summary:
        yield "Its summary:"
        yield _quoted(result.summary)
    if result.attempt:
        helped = (
            " Judged by what it delivered: its agent did not say that it was done." if account.memo.helped else ""
        )
        yield f"Attempt {result.attempt}; {_used(account.seconds, account.tokens, account.cost_usd)}.{helped}"


def _criterion(one: Criterion) -> str:
    remark = {True: "", False: " (not met)", None: " (not shown)"}[one.met]
    return f"- [{'x' if one.met else ' '}] {one_line(one.text)}{remark}"


def _odd(result: TaskResult) -> Iterator[str]:
    memo = result.account.memo
    if memo.accepted:
        yield "A person accepted it as it was."
    yield from (code(escape(one_line(finding))) for finding in memo.findings)
    yield from (f"Not collected, because it changed: {code(path)}: {escape(why)}" for path, why in result.changed)
    yield from (f"Not collected, because it came later: {code(path)}" for path in result.added)
    yield from (f"Not collected, because it is unsafe: {code(path)}: {escape(why)}" for path, why in result.refused)


def _quoted(text: str) -> str:
    lines = [f"> {escape(line.rstrip().expandtabs(4))}".rstrip() for line in text.strip().splitlines()]
    return "\n".join(lines)


def _listed(entries: Sequence[str]) -> str:
    return "\n".join([*(f"- {entry}" for entry in entries[:MOST_LISTED]), *_more(entries)])


def _more(entries: Sequence[object]) -> Iterable[str]:
    more = len(entries) - MOST_LISTED
    return [f"- … and {more:,} more: `{MANIFEST}` has all of them"] if more > 0 else []


def _because(note: str) -> str:
    return f": {code(escape(one_line(note)))}" if note else ""


def _used(seconds: float, tokens: int, cost_usd: float) -> str:
    return f"{seconds:,.0f} s, {tokens:,} tokens, ${cost_usd:.2f}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
