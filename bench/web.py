"""The dashboard: what it costs the service, watched by nobody and by many; pages of a large store; memory;
how soon an event is seen."""

from __future__ import annotations

import http.client
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from .bench import Bench
from .floor import bare_python, seconds
from .large_store import Large, make_large_store
from .project import DEADLINE, Project, Service, memory_mb
from .seen import seen
from .table import Row

ISSUES = 500
SLOTS = 10
STREAMS = 200
HTTP_OK = 200
NOTHING = "`/livez`, which reads nothing"
PAGES = {
    "/": "now",
    "/runs": "runs",
    "/runs?status=failed&page=50": "runs, filtered, page 50",
    "/issues/BIG-1": "an issue with 100 runs",
    "/money": "money",
    "/health": "health",
    "/metrics": "metrics",
    "/api/v2/inbox": "inbox as JSON",
}


class Worked(Struct, frozen=True):
    """Issues per second, seconds of the service's CPU for each, and of the dashboard's; its memory at the end."""

    rate: float
    cpu: float
    cpu_of_dashboard: float = 0.0
    memory: float = 0.0


def web(bench: Bench) -> list[Row]:
    return [*_cost(bench), _start(bench), *_pages(bench), *seen(bench, free_port())]


def _cost(bench: Bench) -> list[Row]:
    """In turns: without a dashboard, with one, with one that many watch, without again. The first of all is thrown
    away: whoever comes first pays for what is not in memory yet."""
    kinds = {"no dashboard": None, "a dashboard": 0, f"a dashboard with {STREAMS} streams": STREAMS}
    without, *others = kinds
    measured: dict[str, list[Worked]] = {kind: [] for kind in kinds}
    _worked_off(bench, bench.root / "web-first", None)
    for n in bench.repeated():
        for number, kind in enumerate((without, *others, without)):
            measured[kind].append(_worked_off(bench, bench.root / f"web-{n}-{number}", kinds[kind]))
    floor = statistics.median(one.rate for one in measured[without])
    bare = statistics.median(one.cpu for one in measured[without])
    rows = []
    for kind in others:
        rate = statistics.median(one.rate for one in measured[kind])
        cpu = statistics.median(one.cpu for one in measured[kind])
        of_dashboard = statistics.median(one.cpu_of_dashboard for one in measured[kind])
        what = f"drain of {ISSUES} issues, {SLOTS} slots, {kind}"
        spread = f"{_range(measured[kind])}, without {_range(measured[without])}"
        note = f"{of_dashboard:.2g} s of CPU of the dashboard in all; rounds: {spread}"
        rows.append(Row(what, rate, "issues/s", floor, without, note))
        rows.append(Row(f"CPU of the service per issue, {kind}", cpu * 1e3, "ms", bare * 1e3, without))
        rows.append(Row(f"memory of {kind} (RSS)", statistics.median(one.memory for one in measured[kind]), "MB"))
    return rows


def _range(rounds: list[Worked]) -> str:
    """From the slowest to the fastest: two kinds that overlap are not told apart."""
    rates = sorted(one.rate for one in rounds)
    return f"{rates[0]:.0f} to {rates[-1]:.0f}"


def _worked_off(bench: Bench, folder: Path, streams: int | None) -> Worked:
    """Everything is up, and everybody watches, before there is anything to do."""
    project = Project(folder, command=bench.program.done, slots=SLOTS)
    project.write_issues(0)
    port = free_port()
    service = project.start("--port", "0" if streams is None else str(port))
    dashboard = 0
    if streams is not None:
        _until_answered(service, port)
        dashboard = _dashboard_of(service.pid)
    with _readers(port, streams or 0):
        before, before_there = service.cpu(), _cpu(dashboard)
        project.write_issues(ISSUES)
        if not service.until_stamped(2 * ISSUES):
            raise RuntimeError(f"not every issue was worked off in {folder}")
        service.until(lambda: set(project.states()) == {"review"})
        cpu, there = service.cpu() - before, _cpu(dashboard) - before_there
        memory = memory_mb(dashboard, "Rss") if dashboard else 0.0
    service.end()
    return Worked(project.stamps.rate(), cpu / ISSUES, there, memory)


@contextmanager
def _readers(port: int, count: int) -> Iterator[None]:
    """So many who watch, each through a connection of its own; what they are sent is thrown away."""
    ended = threading.Event()
    with selectors.DefaultSelector() as selector:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for client in clients:
            client.sendall(b"GET /api/v2/events/stream HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            if not client.recv(12).endswith(b" 200"):
                raise RuntimeError("a stream was refused")
            selector.register(client, selectors.EVENT_READ)

        def read() -> None:
            while not ended.is_set():
                for key, _ in selector.select(0.2) if count else ():
                    key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                if not count:
                    return

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            for client in clients:
                client.close()


def _start(bench: Bench) -> Row:
    """From the start of the service to the first answer of its dashboard."""
    project = Project(bench.root / "web-start", command=bench.program.done, slots=1)
    project.write_issues(0)
    ours, floors = [], []
    for _ in range(bench.rounds + 1):
        port = free_port()
        service = project.start("--port", str(port))
        _until_answered(service, port)
        ours.append(time.monotonic() - service.started)
        service.end()
        floors.append(seconds(lambda: bare_python(1)))
    value, floor = statistics.median(ours) * 1e3, statistics.median(floors) * 1e3
    return Row("start of the service to the dashboard's first answer", value, "ms", floor, "`python -c pass`")


def _pages(bench: Bench) -> list[Row]:
    """By `sortie web`, one reader, one page at a time; and what it holds in memory after them."""
    runs = 10_000 if bench.quick else 100_000
    folder = bench.root / "web-pages"
    project = Project(folder, command=bench.program.done, slots=1)
    project.write_issues(0)
    # Of today, because pages show the last days: of an older one they would be empty.
    make_large_store(folder / ".sortie.db", Large(runs=runs, now=time.time()))
    port = free_port()
    argv = [sys.executable, "-m", "sortie", "web", "--port", str(port)]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            give_up = time.monotonic() + DEADLINE
            while not _answers(port) and time.monotonic() < give_up:
                time.sleep(0.01)
            floor = _asked(port, "/livez", 50)
            rows = [
                Row(
                    f"page of a store with {runs:,} runs: {name}",
                    _asked(port, path, 3 * bench.rounds) * 1e3,
                    "ms",
                    floor * 1e3,
                    NOTHING,
                )
                for path, name in PAGES.items()
            ]
            memory = memory_mb(process.pid, "Rss")
        finally:
            process.send_signal(signal.SIGINT)
    return [*rows, Row(f"memory of `sortie web` after pages of {runs:,} runs (RSS)", memory, "MB")]


def _asked(port: int, path: str, times: int) -> float:
    """Seconds for one answer, the median of so many after the first."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:

        def ask() -> None:
            connection.request("GET", path, headers={"Accept": "text/html"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != HTTP_OK:  # a refusal is quick, and measures nothing
                raise RuntimeError(f"{path} was answered with {answer.status}")

        ask()
        return statistics.median(seconds(ask) for _ in range(times))


def _until_answered(service: Service, port: int) -> None:
    if not service.until(lambda: _answers(port), 60.0):
        raise RuntimeError("the dashboard does not answer")


def _answers(port: int) -> bool:
    try:
        _asked(port, "/livez", 1)
    except (OSError, RuntimeError, http.client.HTTPException):
        return False
    return True


def _dashboard_of(service: int) -> int:
    """The child of the service that is one."""
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    return next(int(pid) for pid in children if b"sortie.web" in Path(f"/proc/{pid}/cmdline").read_bytes())


def _cpu(pid: int) -> float:
    if not pid:
        return 0.0
    raw = Path(f"/proc/{pid}/stat").read_text()
    fields = raw[raw.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
