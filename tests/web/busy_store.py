"""A store in the middle of its work, with everything that a page can show; and what its service would tell."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sortie.core import events as ev
from sortie.core.model import Park, ParkKind, Retry, RetryKind, Usage, View
from sortie.core.policy import Spent, day_of
from sortie.engine.report import LiveReport, RunReport
from sortie.runs.prompt_log import keep_prompt, prompts_path
from sortie.runs.run_log import RunLog, log_path
from sortie.web.site import Live

from .live_server import new_store

WORKFLOW = """\
---
tracker: {kind: file, active_states: [To Do, In Progress], terminal_states: [Done], handoff_state: In Review}
agent: {kind: claude-code, max_concurrent_agents: 6, max_turns: 20}
budget:
  per_day: {usd: 60, tokens: 40000000, turns: 400, sessions: 80}
  per_issue: {usd: 10, turns: 60}
---
Do {{ issue.title }}
"""
TITLES = (
    "Login fails after the session cookie expires",
    "Export of invoices as CSV lacks the tax column",
    "Search results are sorted by relevance only on the first page",
    "Rate limiter counts health checks of the load balancer",
    "Dark mode: the chart legend cannot be read",
    "Retry uploads that fail with 503",
    "Drop the deprecated v1 webhook format",
    "Password reset mail is sent twice",
    "Cache headers of static files are missing",
    "Time zone of reports follows the server",
)
QUESTION = """\
The migration can go two ways, and both change what customers see:

1. keep the old column for one release and write to both,
2. rename it at once, with a downtime of about two minutes.

Which one do you want? I would take the first."""


class Story:
    """Adds events in the order of their time, which is told in seconds before now."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.events: list[ev.AnyEvent] = []
        self._runs = 0

    def add(self, ago: float, kind: type[ev.AnyEvent], **fields: Any) -> None:
        self.events.append(kind(at=self.now - ago, **fields))

    def seen(self, ago: float, number: int, state: str = "To Do", **more: Any) -> str:
        name = f"SHOP-{number}"
        view = View(id=name, identifier=name, title=TITLES[number % len(TITLES)], state=state, **more)
        self.add(ago, ev.IssueSeen, issue_id=name, view=view)
        return name

    def began(self, ago: float, name: str, *, attempt: int = 1, workspace: str = "") -> str:
        self._runs += 1
        run = f"{name}-{attempt}-{self._runs:04}"
        about = {"issue_id": name, "run_id": run}
        claim = {"identifier": name, "attempt": attempt, "agent": "claude-code", "day": day_of(self.now - ago)}
        self.add(ago, ev.Claimed, **claim, **about)
        if workspace:
            self.add(ago, ev.WorkspaceMade, identifier=name, key=name, path=workspace, **about)
        self.add(ago, ev.SessionStarted, session_id=f"c0ffee-{self._runs}", **about)
        return run

    def turns(
        self, ago: float, name: str, run: str, count: int, each: float = 60.0, open_turn: bool = False
    ) -> None:
        about = {"issue_id": name, "run_id": run}
        for turn in range(1, count + 1):
            at = ago - (turn - 1) * each
            self.add(at, ev.TurnStarted, turn=turn, day=day_of(self.now - at), **about)
            if not (open_turn and turn == count):
                self.add(at - each, ev.TurnEnded, turn=turn, **about)

    def ended(
        self, ago: float, name: str, run: str, turns: int, status: str = "succeeded", usd: float = 0.4, **more: Any
    ) -> None:
        about = {"issue_id": name, "run_id": run}
        usage = Usage(int(usd * 900_000), int(usd * 20_000), int(usd * 700_000), usd) if usd else Usage()
        if usd:
            self.add(ago, ev.Charged, usage=usage, day=day_of(self.now - ago), **about)
        self.add(ago, ev.RunEnded, status=status, turns=turns, usage=usage, **more, **about)

    def settled(self, ago: float, name: str, run: str, why: str = "handed over", **more: Any) -> None:
        self.add(ago, ev.Settled, issue_id=name, run_id=run, identifier=name, why=why, **more)


def busy_events(now: float, workspace: str = "") -> list[ev.AnyEvent]:
    story = Story(now)
    story.add(9 * 86400, ev.Opened, pid=4711, version="0.1.0", workflow="WORKFLOW.md")
    _earlier_days(story)
    _handed_over(story)
    _parked(story)
    _running(story, workspace)
    _waiting(story)
    story.add(45, ev.Noted, level="warning", message="the tracker answered slowly", detail="4.2 s for the list")
    return sorted(story.events, key=lambda event: event.at)


def _earlier_days(story: Story) -> None:
    for day in range(8, 0, -1):
        for number in range(2 + day * 7 % 5):
            name = story.seen(day * 86400 + 3600 + number, 200 + day * 10 + number)
            run = story.began(day * 86400 + 3000 + number, name)
            story.turns(day * 86400 + 2900 + number, name, run, 3)
            ago, usd = day * 86400 + 1200 + number, 1.1 + day * 0.7 % 2.3 + number * 0.4
            if number == 1:
                story.ended(ago, name, run, 3, "failed", usd, error="the tests do not pass: 3 failed")
            else:
                story.ended(ago, name, run, 3, "succeeded", usd, soft_stop="needs-human-review")
            story.settled(day * 86400 + 1199 + number, name, run)
            story.add(day * 86400 + 900 + number, ev.IssueLeft, issue_id=name, identifier=name)


def _handed_over(story: Story) -> None:
    for number in (11, 12):
        name = story.seen(7200, number)
        run = story.began(7000 - number, name)
        story.turns(6900, name, run, 4)
        reason = "The tax column is there, with tests; the pull request has 4 files."
        story.ended(6000, name, run, 4, usd=2.1, soft_stop="needs-human-review", reason=reason)
        about = {"issue_id": name, "run_id": run, "effect_id": f"{run}.handoff", "verb": "transition"}
        story.add(5999, ev.EffectPlanned, argument="In Review", **about)
        story.add(5998, ev.EffectDone, ok=True, **about)
        story.seen(5997, number, state="In Review")
        story.settled(5997, name, run)


def _parked(story: Story) -> None:
    refused = "git push was refused: protected branch"
    kinds: list[tuple[int, ParkKind, str]] = [(20, "signal", QUESTION), (21, "error", refused)]
    for number, kind, reason in (*kinds, (22, "budget", "60 turns")):
        name = story.seen(9000, number)
        run = story.began(8000 + number, name, attempt=2)
        story.turns(7900, name, run, 5)
        status = "failed" if kind == "error" else "succeeded"
        story.ended(3000 + number, name, run, 5, status, usd=3.2, soft_stop="blocked" if kind == "signal" else "")
        park = Park(kind=kind, reason=reason, fingerprint="f", attempt=2, session_id="c0ffee")
        story.settled(2999 + number, name, run, why="parked", park=park)


def _running(story: Story, workspace: str) -> None:
    for number in (1, 2, 3, 4):
        name = story.seen(5000, number, "In Progress", priority=number)
        place = workspace if number == 1 else ""
        run = story.began(1300 - number * 200, name, attempt=1 + number % 2, workspace=place)
        story.turns(1290 - number * 200, name, run, 2 + number, open_turn=True, each=90.0)
        about = {"issue_id": name, "run_id": run}
        call = {"tool": "tracker_api", "result": "success", "ms": 41.0, "operation": "fetch_issue"}
        story.add(400 - number, ev.ToolCalled, **call, **about)
        story.add(300 - number, ev.ToolCalled, tool="sortie_status", result="success", ms=3.2, **about)


def _waiting(story: Story) -> None:
    kinds: list[tuple[int, RetryKind]] = [(30, "error"), (31, "limit")]
    for number, kind in kinds:
        name = story.seen(4000, number)
        run = story.began(3500, name, attempt=3)
        story.turns(3400, name, run, 1)
        story.ended(3000, name, run, 1, "failed", usd=0, error="the provider answered 529")
        retry = Retry(kind=kind, attempt=4, due_at=story.now + number * 12, error="the provider answered 529")
        story.settled(2999, name, run, why="", retry=retry)
    for number in (40, 41, 42):
        name = story.seen(4000, number, blocked_by=("SHOP-1",))
        story.add(3990, ev.Skipped, issue_id=name, identifier=name, rule="blocked-by", detail="SHOP-1 is not done")
    for number in range(50, 58):
        story.seen(4000, number)
    pause = {"detail": "usage limit of the plan, resets in an hour", "until": story.now + 1800}
    story.add(120, ev.ProviderPaused, provider="codex", **pause)


def busy_store(folder: Path, *, repository: bool = False) -> Path:
    """With the workflow beside it; its first running issue has a workspace that git knows, if wanted."""
    now = time.time()
    (folder / "WORKFLOW.md").write_text(WORKFLOW)
    workspace = folder / "workspaces" / "SHOP-1"
    if repository:
        _changed_repository(workspace)
    events = busy_events(now, str(workspace) if repository else "")
    store = new_store(folder / "sortie.db", *events)
    for run_id in {event.run_id for event in events if isinstance(event, ev.Claimed)}:
        _write_log(store, run_id, now)
    return store


class Steady(Live):
    """A service that never falls silent, whatever the clock says."""

    def __init__(self, report: LiveReport | None) -> None:
        super().__init__()
        assert report
        self.told = report
        for _ in range(2):
            self.hear(report)

    def now(self) -> LiveReport:
        return self.told


def live_of(events: list[ev.AnyEvent], now: float) -> Live:
    """A service that tells of all that runs."""
    live = Live()
    live.hear(
        LiveReport(
            now=now,
            running=tuple(_runs(events, now)),
            waiting=(),
            parked=(),
            ready=8,
            slots=6,
            today=Spent(sessions=9, turns=41, tokens=9_300_000, usd=18.4),
            loop_lag=0.004,
            last_look_at=now - 12,
            look_seconds=0.31,
        )
    )
    return live


LAST_LINES = ("Running the tests of the session module", "Reading src/checkout/tax.py", "", "The fix works")


def _runs(events: list[ev.AnyEvent], now: float) -> Iterator[RunReport]:
    over = {event.run_id for event in events if isinstance(event, ev.RunEnded)}
    open_ones = [one for one in events if isinstance(one, ev.Claimed) and one.run_id not in over]
    for number, event in enumerate(open_ones):
        yield RunReport(
            issue_id=event.issue_id,
            identifier=event.identifier,
            title="",
            run_id=event.run_id,
            attempt=event.attempt,
            turn=3 + number,
            max_turns=20,
            seconds=now - event.at,
            quiet_seconds=3.0 + number * 55,
            usage=Usage(900_000 * (number + 1), 9_000, 700_000, 0.42 * (number + 1)),
            last_line=LAST_LINES[number % 4],
            ending=False,
            agent=event.agent,
            model="claude-opus-5",
        )


def _write_log(store: Path, run_id: str, now: float) -> None:
    keep_prompt(prompts_path(store, run_id), 1, now - 301, "Sessions end an hour early in summer. Find out why.")
    log = RunLog(log_path(store, run_id))
    said = (
        ("agent", "I begin by reading the session code and its tests."),
        ("uses", "Read src/session/cookie.py"),
        ("uses", "Read done"),
        ("uses", "Bash python -m pytest tests/session -q"),
        ("uses", "Bash failed: 2 failed, 41 passed in 3.12s"),
        ("agent", "Two tests fail because the clock of the cookie is in local time. I change it to UTC."),
        ("uses", "Edit src/session/cookie.py"),
        ("uses", "Edit done"),
        ("stderr", "warning: the file has CRLF line ends"),
        ("turn", "end_turn"),
        ("agent", "All 43 tests pass now."),
    )
    for number, (source, text) in enumerate(said):
        log.write(now - 300 + number * 7, source, text)
    log.close()


BEFORE = "import time\n\n\ndef expires(seconds):\n    return time.localtime(time.time() + seconds)\n"
TEST = "from cookie import expires\n\n\ndef test_utc():\n    assert expires(0).tm_zone == 'UTC'\n"


def _changed_repository(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    (workspace / "cookie.py").write_text(BEFORE)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "before"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *command], cwd=workspace, check=True, capture_output=True)
    (workspace / "cookie.py").write_text(BEFORE.replace("localtime", "gmtime"))
    (workspace / "test_cookie.py").write_text(TEST)
