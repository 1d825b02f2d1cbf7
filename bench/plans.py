"""What a plan costs: overhead per task, ready to started, memory; for chains, fans and random graphs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from .bench import Bench
from .drains import drained
from .floor import spawned
from .project import DEADLINE, Service, memory_mb
from .stamps import Stamps
from .table import READY_TO_START, Row

SIZES = (100, 1_000, 10_000)
SLOTS = 10
FLOOR = "`posix_spawn`"
SEED = 20

Edges = dict[int, list[int]]


def chain(count: int) -> Edges:
    return {n: [n - 1] if n else [] for n in range(count)}


def fan(count: int) -> Edges:
    """One, then all others but the last, then the last, which gets something of each."""
    last = count - 1
    return {0: []} | {n: [0] for n in range(1, last)} | {last: list(range(1, last))}


def random_graph(count: int) -> Edges:
    """Each waits for up to three of the hundred before it."""
    chance = random.Random(SEED)
    return {n: sorted(chance.sample(range(max(n - 100, 0), n), min(n, chance.randrange(4)))) for n in range(count)}


SHAPES: dict[str, Callable[[int], Edges]] = {"chain": chain, "fan": fan, "random graph": random_graph}


class Measured(Struct, frozen=True):
    """Tasks per second, seconds of CPU for each, seconds from the end of the last that each waits for to its start
    where there was a slot, and mebibytes."""

    rate: float
    cpu: float
    latencies: list[float]
    memory: float
    ended: int


def plans(bench: Bench) -> list[Row]:
    rows = []
    sizes = SIZES[:2] if bench.quick else SIZES
    for shape, edges_of in SHAPES.items():
        first = 0.0
        for size in sizes:
            slots = 1 if shape == "chain" else SLOTS
            folder = bench.root / f"{shape.replace(' ', '-')}-{size}"
            before = spawned(bench.program.task, _with_outboxes(folder / "before", 200), 200, slots)
            issues = drained(folder / "issues", bench.program.done, 200, slots)
            ours = run_plan(folder / "ours", bench.program.task, edges_of(size), slots)
            after = spawned(bench.program.task, _with_outboxes(folder / "after", 200), 200, slots)
            floor = (before.rate + after.rate) / 2
            cost = 1e3 / ours.rate
            first = first or cost * floor
            note = (
                f"{ours.cpu * 1e3:.1f} ms of CPU, {ours.memory:.0f} MB; an issue takes {1e3 / issues.rate:.1f} ms; "
                f"{cost * floor / first:.2f} of the cost with {sizes[0]}"
            )
            if ours.ended < size:
                note += f", by the first {ours.ended:,}"
            rows.append(
                Row(f"{shape} of {size:,} tasks, {_at_a_time(slots)}: each", cost, "ms", 1e3 / floor, FLOOR, note)
            )
            if shape == "chain":
                rows.append(_latency(f"chain of {size:,} tasks", ours.latencies))
    return rows


def _latency(what: str, latencies: list[float]) -> Row:
    late = statistics.quantiles(latencies, n=20)[-1]
    return Row(
        f"{what}: {READY_TO_START}", statistics.median(latencies) * 1e3, "ms", note=f"p95 {late * 1e3:.1f} ms"
    )


def _at_a_time(slots: int) -> str:
    return f"{slots} at a time"


def _with_outboxes(folder: Path, count: int) -> Path:
    for n in range(count):
        (folder / f"{n}" / "outbox").mkdir(parents=True)
    return folder


def run_plan(directory: Path, program: Path, edges: Edges, slots: int, limit: float = 120.0) -> Measured:
    directory.mkdir(parents=True)
    (directory / "plan.yaml").write_text(plan_text(program, edges, slots))
    stamps = Stamps(directory)
    service = Service(directory, stamps, ("plan", "run", "plan.yaml"))
    service.until_stamped(1)
    before = service.cpu()
    is_done = service.until_stamped(2 * len(edges), limit)
    memory = memory_mb(service.pid)
    if is_done:
        cpu = service.cpu_at_end()
        if service.process.wait(DEADLINE) != 0:
            raise RuntimeError(f"the plan in {directory} did not come to its end")
    else:
        cpu = service.cpu()
        service.end()
    ended = len(stamps.ends())
    return Measured(
        rate=stamps.rate(),
        cpu=(cpu - before) / ended,
        latencies=_latencies(stamps),
        memory=memory,
        ended=ended,
    )


def plan_text(program: Path, edges: Edges, slots: int) -> str:
    head = (
        f"name: measured\nmax_parallel: {slots}\nbudget: {{sessions: 0, turns: 0}}\n"
        f"defaults:\n  agent: {{kind: command, command: {program}}}\ntasks:\n"
    )
    tasks = (
        f"  - {{name: t{n}, objective: Do it., success_criteria: [done], outputs: [result.md], "
        f"depends_on: [{', '.join(f't{one}' for one in waits)}]}}\n"
        for n, waits in edges.items()
    )
    return head + "".join(tasks)


def _latencies(stamps: Stamps) -> list[float]:
    """Of a chain: in other graphs a task that is ready may have to wait for a slot as well."""
    return stamps.gaps()
