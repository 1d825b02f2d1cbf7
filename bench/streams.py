"""What it costs to listen: each agent's reader against a bare JSON decode, and the service with 200 that talk."""

from __future__ import annotations

import json
import statistics

from tests.agents.playing import recorded
from tests.agents.readers import READERS, transcripts_of

from sortie.agents.turn_reader import TurnExit

from .bench import Bench
from .floor import seconds, side_by_side
from .project import Project
from .table import Row

LINES = 20_000
AGENTS = 200
ROUNDS = 20
REPEATS = 12

# As long as any stamp; only their number counts here.
_STAMP = "printf '%-39s\\n' . >>stamps"


DECODED = "`json.loads` of each line"


def readers(bench: Bench) -> list[Row]:
    """Lines per second of each reader over all its recordings, as one turn after the other."""
    return [_reader(kind, 2 * bench.rounds - 1) for kind in READERS]


def _reader(kind: str, times: int) -> Row:
    turns = [recorded(name) for name in transcripts_of(kind)]
    lines = sum(map(len, turns))
    repeats = max(LINES // lines, 1)

    def read() -> None:
        for _ in range(repeats):
            for turn in turns:
                reader = READERS[kind]()
                for line in turn:
                    reader.read(line)
                reader.verdict(TurnExit())

    def bare() -> None:
        for _ in range(repeats):
            for turn in turns:
                for line in turn:
                    json.loads(line)

    ours, floor = side_by_side(read, bare, times)
    return Row(f"reader of {kind}", lines * repeats / ours, "lines/s", lines * repeats / floor, DECODED)


def streaming(bench: Bench) -> list[Row]:
    """CPU of the service for each 1,000 events, with 200 agents that talk all at once.

    The agents are stand-ins which print a recording of Claude Code, so that the machine measures us and not them.
    """
    opening, *rest = recorded("claude-ok")
    *talk, last = rest
    folder = bench.root / "streaming"
    folder.mkdir(parents=True)
    for name, part in (("opening", [opening]), ("talk", talk * REPEATS), ("last", [last])):
        (folder / name).write_bytes(b"\n".join(part) + b"\n")
    rounds = ROUNDS // 4 if bench.quick else ROUNDS
    script = folder / "agent.sh"
    script.write_text(
        f"cd {folder}; cat opening; {_STAMP}; until [ -e go ]; do sleep 0.5; done\n"
        f"for n in $(seq {rounds}); do cat talk; sleep 0.5; done; {_STAMP}; cat last\n"
    )
    project = Project(folder, command=f"sh {script}", slots=AGENTS, kind="claude-code", max_turns=1)
    project.write_issues(AGENTS)
    service = project.start()
    service.until_stamped(AGENTS)
    before = service.cpu()
    (folder / "go").touch()
    service.until_stamped(2 * AGENTS)
    cpu = service.cpu() - before
    service.end()
    per_thousand = cpu / (AGENTS * rounds * len(talk) * REPEATS) * 1000
    lines = (talk * 1000)[:1000]
    bare = statistics.median(seconds(lambda: [json.loads(line) for line in lines]) for _ in range(50))
    what = f"CPU of the service for 1,000 events, {AGENTS} agents talking"
    return [Row(what, per_thousand * 1e3, "ms", bare * 1e3, DECODED)]
