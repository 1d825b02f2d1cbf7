"""What it costs to listen: each agent's reader against a bare JSON decode, and the service with 200 that talk."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.agents.playing import recorded
from tests.agents.readers import READERS, transcripts_of

from sortie.agents.turn_reader import TurnExit

from .baseline import median_seconds
from .project import Project, cpu_seconds, end
from .row import Row

LINES = 20_000
AGENTS = 200
ROUNDS = 20
REPEATS = 12


def parsers(root: Path) -> list[Row]:  # noqa: ARG001 - nothing is written
    """Lines per second of each reader over all its recordings, as one turn after the other."""
    return [_parser(kind) for kind in READERS]


def _parser(kind: str) -> Row:
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

    ours, theirs = median_seconds(read, 5), median_seconds(bare, 5)
    return Row(f"reader of {kind}", lines * repeats / ours, "lines/s", ours / theirs, "`json.loads` of each line")


def streaming(root: Path) -> list[Row]:
    """CPU of the service for each 1,000 events, with 200 agents that talk all at once.

    The agents are stand-ins which print a recording of Claude Code, so that the machine measures us and not them.
    """
    opening, *rest = recorded("claude-ok")
    *talk, last = rest
    folder = root / "streaming"
    folder.mkdir(parents=True)
    for name, part in (("opening", [opening]), ("talk", talk * REPEATS), ("last", [last])):
        (folder / name).write_bytes(b"\n".join(part) + b"\n")
    agent = (
        f"cd {folder}; cat opening; until [ -e go ]; do sleep 0.5; done\n"
        f"for n in $(seq {ROUNDS}); do cat talk; sleep 0.5; done; cat last\n"
    )
    project = Project(folder / "project", agent=agent, slots=AGENTS, kind="claude-code", max_turns=1)
    project.write_issues(AGENTS)
    service = project.start()
    project.wait_for_sessions(AGENTS)
    (folder / "go").touch()
    before, since = cpu_seconds(service.pid), time.monotonic()
    project.wait_for_runs(AGENTS)
    cpu, seconds = cpu_seconds(service.pid) - before, time.monotonic() - since
    end(service)
    events = AGENTS * ROUNDS * len(talk) * REPEATS
    per_thousand = cpu / events * 1000
    bare = median_seconds(lambda: [json.loads(line) for line in talk * (1000 // len(talk))], 50)
    print(f"{events} events in {seconds:.1f} s ", end="", file=sys.stderr)
    return [
        Row(
            f"service CPU per 1,000 events, {AGENTS} agents streaming",
            per_thousand * 1e3,
            "ms",
            per_thousand / bare,
            "`json.loads` of each line",
        )
    ]
