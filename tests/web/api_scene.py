"""A store in which everything happened that programs can ask for, and what its service would tell of it now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.policy import Limits, Policy, Spent, day_of
from sortie.engine.report import LiveReport, RunReport
from sortie.runs.prompt_log import keep_prompt, prompts_path
from sortie.runs.run_log import log_path
from sortie.store.call_use import CallFigures, write_call_figures
from sortie.store.connect import connect_existing
from sortie.web.site import Live

from .live_server import LiveServer, new_store, served

WORKFLOW = """\
---
tracker: {kind: file, active_states: [To Do], terminal_states: [Done], handoff_state: In Review}
agent: {kind: command, max_concurrent_agents: 4}
budget:
  per_issue: {sessions: 3, tokens: 1000}
  per_day: {usd: 10, tokens: 100000}
---
Do {{ issue.title }}
"""
POLICY = Policy(
    active_states=("To Do",),
    terminal_states=("Done",),
    max_concurrent=4,
    per_issue=Limits(sessions=3, tokens=1000),
    per_day=Limits(usd=10.0, tokens=100_000),
)
HOSTILE = "<script>alert(1)</script> \x1b[31m \u202e \x00 and a \ud800half"
RUNNING_RUN = "0000000000a-running"
ENDED_RUN = "0000000000b-ended"


def seen(issue_id: str, title: str = "Mend it", **more: Any) -> ev.IssueSeen:
    url = f"https://tracker.example/D-{issue_id}"
    view = ev.View(id=issue_id, identifier=f"D-{issue_id}", title=title, **{"state": "To Do", "url": url, **more})
    return ev.IssueSeen(at=time.time() - 3700, issue_id=issue_id, view=view)


def whole_run(
    issue_id: str, run_id: str, began: float, then: ev.Settled | None = None, **ended: Any
) -> list[ev.AnyEvent]:
    """A run of one turn, from its claim to what follows it."""
    about: dict[str, Any] = {"issue_id": issue_id, "run_id": run_id}
    usage, day = ended.pop("usage", Usage(100, 50, 20, 0.25)), day_of(began)
    verdict: dict[str, Any] = {"status": "succeeded", "turns": 1, "usage": usage, "model": "opus", **ended}
    charged = ev.Charged(at=began + 20, usage=usage, day=day, model="opus", **about)
    return [
        ev.Claimed(at=began, identifier=f"D-{issue_id}", attempt=1, agent="claude-code", day=day, **about),
        ev.WorkspaceMade(at=began, identifier=f"D-{issue_id}", key=f"D-{issue_id}", path="/nowhere/D", **about),
        ev.TurnStarted(at=began + 1, turn=1, day=day, **about),
        ev.ToolCalled(at=began + 5, tool="tracker_api", result="success", ms=12.0, **about),
        ev.ToolCalled(at=began + 6, tool="tracker_api", result="error", ms=3.0, error="not_found", **about),
        *([charged] if usage != Usage() else []),
        ev.TurnEnded(at=began + 30, turn=1, **about),
        ev.RunEnded(at=began + 31, **verdict, **about),
        then or ev.Settled(at=began + 32, identifier=f"D-{issue_id}", why="released", **about),
    ]


def busy_events(now: float) -> list[ev.AnyEvent]:
    hour = now - 3600

    def settled(issue_id: str, run_id: str, **more: Any) -> ev.Settled:
        name = f"D-{issue_id}"
        return ev.Settled(at=hour + 100, issue_id=issue_id, run_id=run_id, identifier=name, why="it ended", **more)

    question = ev.Park(kind="signal", reason=HOSTILE, fingerprint="f", attempt=1, session_id="s-4")
    spent = "the budget of this issue is used up: all of 1,000 tokens used"
    used_up = ev.Park(kind="budget", reason=spent, fingerprint="", attempt=1)
    again = ev.Retry(kind="error", attempt=2, due_at=now + 600, failures=1, error="it broke")
    failed, used, asked = "0000000000c-failed", "0000000000d-used", "0000000000e-asked"
    running: dict[str, Any] = {"issue_id": "1", "run_id": RUNNING_RUN}
    return [
        ev.Opened(at=hour, pid=1, version="0.1.0", workflow="WORKFLOW.md"),
        ev.PolicySet(at=hour, policy=POLICY),
        *(seen(str(number), title=HOSTILE if number == 4 else "Mend it") for number in range(1, 9)),
        *whole_run("2", failed, hour, settled("2", failed, retry=again), status="failed", error="it broke"),
        *whole_run("3", used, hour, settled("3", used, park=used_up)),
        *whole_run("4", asked, hour, settled("4", asked, park=question), soft_stop="blocked", reason="a key?"),
        *whole_run("5", ENDED_RUN, hour, soft_stop="needs-human-review", reason="please look"),
        seen("5", state="In Review"),
        *whole_run("9", "0000000000f-silent", hour, usage=Usage(), status="stalled", error="no sign of life"),
        ev.Skipped(at=hour, issue_id="6", identifier="D-6", rule="blocked-by", detail="D-7"),
        ev.ProviderPaused(at=now, provider="codex", until=now + 900, detail="limit reached"),
        ev.Claimed(at=now - 60, identifier="D-1", attempt=1, agent="claude-code", host="box", **running),
        ev.WorkspaceMade(at=now - 59, identifier="D-1", key="D-1", path="/nowhere/D-1", **running),
        ev.SessionStarted(at=now - 58, session_id="s-1", **running),
        ev.TurnStarted(at=now - 57, turn=1, day=day_of(now), **running),
        ev.Noted(at=now - 50, level="warning", message="something odd", **running),
    ]


def live_report(**more: Any) -> LiveReport:
    run = RunReport(
        issue_id="1",
        identifier="D-1",
        title="Mend it",
        run_id=RUNNING_RUN,
        attempt=1,
        turn=1,
        max_turns=20,
        seconds=60.0,
        quiet_seconds=2.0,
        usage=Usage(1000, 200, 400, 0.5),
        last_line="reading the code",
        ending=False,
        agent="claude-code",
        model="opus",
        url="https://tracker.example/D-1",
    )
    told: dict[str, Any] = {
        "running": (run,),
        "waiting": (),
        "parked": (),
        "ready": 2,
        "slots": 4,
        "today": Spent(),
    }
    looked: dict[str, Any] = {"loop_lag": 0.003, "last_look_at": time.time(), "look_seconds": 0.2}
    return LiveReport(now=time.time(), **{**told, **looked, **more})


class Telling(Live):
    """A service that is heard all the time; `report` is what it says."""

    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.hear(live_report(**more))

    def now(self) -> LiveReport | None:
        return self.report


def busy_store(folder: Path, *more: ev.AnyEvent) -> Path:
    now = time.time()
    path = new_store(folder / "sortie.db", *busy_events(now), *more)
    log = log_path(path, ENDED_RUN)
    log.parent.mkdir()
    log.write_text("2026-01-01T00:00:00Z agent: hello\n2026-01-01T00:00:01Z uses: Bash ls\n")
    keep_prompt(prompts_path(path, ENDED_RUN), 1, now, "Do what the issue says.")
    (folder / "WORKFLOW.md").write_text(WORKFLOW)
    with closing(connect_existing(path)) as db:
        write_call_figures(db, CallFigures(as_of=now, made=3, per_minute=60, limit=5000, remaining=4321))
    return path


@contextmanager
def busy_server(folder: Path, live: Live | None = None, **more: Any) -> Iterator[LiveServer]:
    with served(busy_store(folder), live=live or Telling(), **more) as server:
        yield server
