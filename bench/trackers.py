"""How often servers are asked: in an hour of looking with so many issues at work, and for one run from end to end.

The servers are those of the tests: GitHub's emulator behind a proxy that counts and tags, and our Jira. Looks come
fast here and are counted; an hour has as many as the usual poll interval makes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from tests.servers.emulate import REPOSITORY
from tests.servers.github_scene import TOKEN
from tests.servers.github_scene import running as github
from tests.servers.jira_fake import KEY, JiraFake

from .bench import Bench
from .project import Service
from .stamps import Stamps
from .table import Row

SIZES = (10, 50, 200)
PARKED = 10
WAITING = 50
LOOKS = 20
LOOKS_IN_AN_HOUR = 120  # by the usual poll interval of 30 s
FASTER = 500  # milliseconds between looks here
OWN_WRITES_FORGOTTEN = 125.0  # what the trackers wrote themselves is asked for as well for so long

# The first agents ask a person, and their issues are parked; all others work until the end of the measurement.
WORKS = (
    f'for n in $(seq {PARKED}); do if mkdir "$SORTIE_WORKFLOW_DIR/parked-$n" 2>/dev/null;'
    " then mkdir -p .sortie; echo blocked > .sortie/status; exit; fi; done; exec sleep 3600"
)
HANDS_OVER = "mkdir -p .sortie; echo needs-human-review > .sortie/status"


class Server(Struct):
    """`asked` is every call so far with its status; `is_look` tells the first call of a look by its line."""

    name: str
    settings: str
    is_look: re.Pattern[str]
    add: Callable[[], object]
    asked: Callable[[], list[tuple[str, int]]]

    def calls(self) -> tuple[int, int, int]:
        """All, those that cost nothing because nothing had changed, and looks."""
        found = self.asked()
        return (
            len(found),
            sum(status == 304 for _, status in found),
            sum(bool(self.is_look.match(one)) for one, _ in found),
        )

    def said(self) -> int:
        """Comments: one when work on an issue begins, another when its run has ended."""
        return sum(bool(re.match("POST .*/comments?", one)) for one, _ in self.asked())


def trackers(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for server in (_github, _jira):
        for size in SIZES[:1] if bench.quick else SIZES:
            with server() as asked:
                rows.append(_looking(bench.root / f"{asked.name}-{size}", asked, size, is_quick=bench.quick))
        with server() as asked:
            rows.append(_one_run(bench.root / f"{asked.name}-run", asked))
    return rows


def _looking(directory: Path, server: Server, size: int, *, is_quick: bool) -> Row:
    for _ in range(PARKED + size + WAITING):
        server.add()
    service = _service(directory, server, WORKS, slots=size)
    service.until(lambda: server.said() >= 2 * PARKED + size)
    service.until(lambda: False, 5.0 if is_quick else OWN_WRITES_FORGOTTEN)
    all_before, free_before, looks_before = server.calls()
    service.until(lambda: server.calls()[2] >= looks_before + LOOKS)
    all_after, free_after, looks = server.calls()
    service.end()
    made, free = all_after - all_before, free_after - free_before
    an_hour = LOOKS_IN_AN_HOUR / (looks - looks_before)
    note = f"{PARKED} parked, {WAITING} waiting; {made / (looks - looks_before):.3g} calls a look"
    if free:
        note += f", {100 * free / made:.0f} % of them unchanged, which cost nothing of the quota"
    return Row(
        f"{server.name}, {size} at work: calls in an hour of looking",
        made * an_hour,
        "calls",
        LOOKS_IN_AN_HOUR,
        "a call for each look",
        note,
    )


def _one_run(directory: Path, server: Server) -> Row:
    server.add()
    service = _service(directory, server, HANDS_OVER, slots=1, flags=("--until-idle",))
    service.wait()
    made, _, looks = server.calls()
    note = "two moves, two comments, one turn; without the looks"
    return Row(
        f"{server.name}: calls of one run, from its start to the hand-over",
        made - looks,
        "calls",
        4,
        "the writes",
        note,
    )


def _service(directory: Path, server: Server, command: str, *, slots: int, flags: tuple[str, ...] = ()) -> Service:
    directory.mkdir()
    (directory / "WORKFLOW.md").write_text(
        f"---\ntracker:\n{server.settings}"
        "  comments: {on_dispatch: true, on_completion: true}\n  calls_per_minute: 100000\n"
        f"polling: {{interval_ms: {FASTER}}}\n"
        f"agent:\n  kind: command\n  max_turns: 1\n  max_concurrent_agents: {slots}\n"
        f"  command: {_quoted(command)}\n"
        "budget: {per_day: {sessions: 0, turns: 0}}\n---\nWork on {{ issue.identifier }}.\n"
    )
    return Service(directory, Stamps(directory), ("run", "WORKFLOW.md", *flags))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _github() -> Iterator[Server]:
    with github() as scene:
        os.environ["BENCH_TRACKER_KEY"] = TOKEN
        yield Server(
            name="GitHub",
            settings=(
                f"  kind: github\n  endpoint: {scene.server.url}\n  project: {REPOSITORY}\n"
                "  api_key: $BENCH_TRACKER_KEY\n  active_states: [todo, in-progress]\n"
                "  in_progress_state: in-progress\n  handoff_state: review\n  terminal_states: [done]\n"
            ),
            is_look=re.compile("GET .*/issues[?].*labels=todo"),
            add=lambda: scene.open("Paint it", "todo"),
            asked=lambda: [
                (f"{one.asked.method} {one.asked.path}", one.status) for one in [*scene.server.exchanges]
            ],
        )


@contextmanager
def _jira() -> Iterator[Server]:
    with JiraFake().running() as fake:
        os.environ["BENCH_TRACKER_KEY"] = KEY
        yield Server(
            name="Jira",
            settings=(
                f"  kind: jira\n  endpoint: {fake.url}\n  project: PROJ\n  api_key: $BENCH_TRACKER_KEY\n"
                "  active_states: [Todo, In Progress]\n  in_progress_state: In Progress\n"
                "  handoff_state: In Review\n  terminal_states: [Done]\n"
            ),
            is_look=re.compile("POST .*/search/jql first page"),
            add=fake.store.add,
            # The project is asked for by a look that finds nothing, as the last one does.
            asked=lambda: [(_line(*each), 200) for each in [*fake.requests] if "/project/" not in each[1]],
        )


def _line(method: str, path: str, body: object) -> str:
    is_first = not (isinstance(body, dict) and "nextPageToken" in body)
    return f"{method} {path}{' first page' if is_first else ''}"
