"""After `kill -9` at any moment: what was answered is there, nothing is there by half."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sortie.core import events as ev
from sortie.store import Store
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.store.lock import holder_of
from sortie.store.queries import events

from .sample import DAY, noted, output_of, start_python

# Every caller appends (turn, note) pairs and says on standard output which pair is on disk.
WRITES_WITHOUT_END = f"""
import itertools, os, sys
from pathlib import Path
import anyio
from sortie.core.events import Noted, TurnStarted
from sortie.store import Store

async def main(path):
    async with Store.open(path, holder={{"workflow": "W"}}) as store:
        async def caller(number):
            issue = str(number)
            for step in itertools.count(1):
                await store.append(
                    TurnStarted(at=1.0, issue_id=issue, run_id=issue, turn=step, day="{DAY}"),
                    Noted(at=1.0, issue_id=issue, run_id=issue, level="info", message=str(step)),
                )
                os.write(1, f"{{number}} {{step}}\\n".encode())

        async with anyio.create_task_group() as callers:
            for number in range(8):
                callers.start_soon(caller, number)

anyio.run(main, Path(sys.argv[1]))
"""


def kill_after(answers: int, path: Path) -> dict[str, int]:
    """Let a process write, kill it after so many answers; the last answered step of each caller."""
    answered: dict[str, int] = {}
    with start_python(WRITES_WITHOUT_END, path) as child:
        for count, line in enumerate(output_of(child), 1):
            if count == answers:
                child.kill()
            if line.endswith("\n"):
                caller, step = line.split()
                answered[caller] = int(step)
        assert child.wait(10) == -9
    return answered


@pytest.mark.parametrize("answers", [1, 150, 4000])
async def test_what_was_answered_survives_a_kill_and_nothing_is_there_by_half(path, answers):
    answered = kill_after(answers, path)
    assert sum(answered.values()) >= answers

    assert holder_of(path) is None
    with closing(connect_readonly(path)) as db:
        spent = load(db).schedule.spent
        assert answered.keys() <= spent.keys()
        for issue, amount in spent.items():
            of_issue = [row.event for row in events(db, issue_id=issue, limit=100_000)]
            turns = [event.turn for event in of_issue if isinstance(event, ev.TurnStarted)]
            notes = [int(event.message) for event in of_issue if isinstance(event, ev.Noted)]
            assert turns == notes == list(range(1, len(turns) + 1))
            assert answered.get(issue, 0) <= len(turns) <= answered.get(issue, 0) + 1
            assert amount.turns == len(turns)

    async with Store.open(path, holder={}) as store:
        await store.append(noted("onwards"))


async def test_a_reader_that_dies_stops_nobody(path):
    """A reader in the middle of a snapshot is killed; the next one and the next writer do not notice."""
    kill_after(10, path)
    script = """
import sys
from pathlib import Path
from sortie.store.connect import connect_readonly
db = connect_readonly(Path(sys.argv[1]))
db.execute("BEGIN")
print(db.execute("SELECT count(*) FROM events").fetchone()[0], flush=True)
sys.stdin.read()
"""
    with start_python(script, path) as reader:
        counted = int(output_of(reader).readline())
        reader.kill()
        reader.wait(10)
    with closing(connect_readonly(path)) as db:
        assert len(events(db, limit=100_000)) == counted
    async with Store.open(path, holder={}) as store:
        await store.append(noted("onwards"))
