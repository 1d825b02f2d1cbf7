"""What a work log costs as it grows: to append, to claim, to decide, to parse, to ask what is new."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from sortie.peers.author import Author
from sortie.peers.worklog.compose import (
    AnyRecordable,
    Claim,
    Completion,
    Decision,
    Handoff,
    Note,
    QuickHandoff,
    compose,
)
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.parse import parse
from sortie.peers.worklog.worklog_file import WorklogFile

from .bench import Bench
from .floor import side_by_side
from .table import PARSE_A_WORK_LOG, Row

SIZES = (100, 10_000, 100_000)
NEW = 10
SEED = 11
AGENTS = ("Claude", "Codex", "Gemini")
MAINTAINER = Author(name="Maintainer", role="maintainer")
# Of the first entry; the others follow a minute apart.
BEGAN = 1_760_000_000.0


def worklog(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    first: dict[str, float] = {}
    for size in SIZES:
        folder = bench.root / f"worklog-{size}"
        folder.mkdir()
        path = folder / "WORKLOG.md"
        log = WorklogFile(path)
        log.create(AGENTS, "Maintainer", MAINTAINER, BEGAN)
        with path.open("ab") as file:
            file.write(entries(size))
        for what, record, floor in _writes(log, path, BEGAN + size * 60):
            ours, theirs = side_by_side(record, floor, 5 if bench.quick else 25)
            first.setdefault(what, ours)
            note = f"{ours / first[what]:.2f} of the time with {SIZES[0]}; {path.stat().st_size / 1e6:.1f} MB"
            floor_is = "append, `fdatasync`" if what == "append" else "read, write, `fsync`, rename"
            rows.append(
                Row(f"work log of {size:,} entries: {what}", ours * 1e3, "ms", theirs * 1e3, floor_is, note)
            )
    return [*rows, *_reading(log, path, 3 if bench.quick else 9)]


def _writes(
    log: WorklogFile, path: Path, began: float
) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """What is measured, and the least that anybody has to do for it."""
    at = (began + n for n in count())

    def record(make: Callable[[float], AnyRecordable]) -> None:
        now = next(at)
        log.record(make(now), MAINTAINER, at=now, actor=AGENTS[0])

    entry = compose(_note(began), actor=AGENTS[0], at=began).encode()
    beside = path.with_name("beside.md")
    beside.write_bytes(path.read_bytes())
    return [
        ("append", partial(record, _note), partial(_appended, beside, entry)),
        ("claim", partial(record, lambda now: Claim(task=f"T-{now:.0f}")), partial(_replaced, path, beside)),
        ("decision", partial(record, _decision), partial(_replaced, path, beside)),
    ]


def _reading(log: WorklogFile, path: Path, times: int) -> list[Row]:
    size = path.stat().st_size / 1e6
    ours, floor = side_by_side(lambda: parse(path.read_bytes()), path.read_bytes, times)
    parsed = parse(path.read_bytes())
    before = time.process_time()
    told = len(events_of(parsed))
    note = f"{told / (time.process_time() - before):,.0f} events a second of CPU beyond that"
    rows = [Row(PARSE_A_WORK_LOG, size / ours, "MB/s", size / floor, "reading the file", note)]
    _, cursor = log.since(None)
    latest = BEGAN * 2
    for n in range(NEW):
        log.record(Note(title=f"new {n}"), MAINTAINER, at=latest + n, actor=AGENTS[0])
    assert len(log.since(cursor)[0]) == NEW
    since, whole = side_by_side(lambda: log.since(cursor), lambda: parse(path.read_bytes()), times)
    what = f"work log of {SIZES[-1]:,} entries: what is new, {NEW} of them"
    return [*rows, Row(what, since * 1e3, "ms", whole * 1e3, "parsing it all")]


def _note(now: float) -> Note:
    return Note(title=f"Looked into {now:.0f}", text="The failure comes from a clock that goes back.")


def _decision(now: float) -> Decision:
    return Decision(title=f"Decided {now:.0f}", decision="It stays.", mode="consensus", rationale="It works.")


def _appended(path: Path, entry: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, entry)
    os.fdatasync(descriptor)
    os.close(descriptor)


def _replaced(path: Path, beside: Path) -> None:
    data = path.read_bytes()
    temporary = beside.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    temporary.replace(beside)


def entries(size: int) -> bytes:
    """As agents write them: claims, handoffs of several files, notes with code, completions, quick handoffs."""
    chance = random.Random(SEED)
    return b"".join(
        b"\n" + compose(_entry(n, chance), actor=AGENTS[n % 3], at=BEGAN + n * 60).encode() for n in range(size)
    )


def _entry(n: int, chance: random.Random) -> AnyRecordable:
    task = f"T-{n} reader of module {n}"
    files = tuple(f"src/module_{part}/reader_{n}.py" for part in range(chance.randrange(1, 6)))
    match n % 6:
        case 0:
            return Claim(task=task)
        case 1 | 2:
            return Handoff(
                task=task,
                next_owner=AGENTS[(n + 1) % 3],
                changed_files=files,
                tests="47 passed, 0 failed",
                risks="The schema of the exports may still change; see the notes.",
                note="The reader now keeps what it does not know.\nThe test shows how it is used.",
            )
        case 3:
            code = "```\nTraceback (most recent call last):\n  File x\n```"
            return Note(
                title=f"Looked into {n}", text=f"The failure comes from a clock.\n\n{code}\n\nNo more was found."
            )
        case 4:
            return Completion(task=task, changed_files=files, tests="12 passed")
        case _:
            return QuickHandoff(
                what=f"wired {n}", next_owner=AGENTS[(n + 1) % 3], next_task="tests", tests="3 passed"
            )
