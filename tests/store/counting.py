"""Counters counted once more, by reading the log from its beginning with nothing but a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sortie.core import events as ev
from sortie.core.conclude import AGENT_FAULTS
from sortie.core.model import Usage

Counted = dict[tuple[str, ...], float]


class Recount:
    """`counted` by name and label values, `durations` by exit type, `waits` of new issues; `used` by day, agent,
    model and issue: runs, unmeasured ones, and what was charged."""

    def __init__(self, events: Iterable[ev.AnyEvent]) -> None:
        self.counted: Counter[tuple[str, ...]] = Counter()
        self.durations: dict[str, list[float]] = {}
        self.waits: list[float] = []
        self.used: dict[tuple[str, str, str, str], list[Any]] = {}
        self._open: dict[str, dict[str, Any]] = {}
        self._shown: dict[str, float] = {}
        for event in events:
            self._take(event)

    def _run(self, event: ev.AnyEvent) -> dict[str, Any]:
        run = self._open.get(event.issue_id, {})
        return run if run.get("run_id") == event.run_id else {}

    def _take(self, event: Any) -> None:
        run, add = self._run(event), self.counted.update
        match event:
            case ev.IssueSeen():
                self._shown[event.issue_id] = event.at
            case ev.Claimed():
                if event.cause == "new" and event.issue_id in self._shown:
                    self.waits.append(max(event.at - self._shown[event.issue_id], 0.0))
                facts = {"run_id": event.run_id, "since": event.at, "agent": event.agent, "status": ""}
                self._open[event.issue_id] = facts
            case ev.TurnStarted() if run:
                if not run.get("turn"):
                    add([("dispatches", "success")])
                run["turn"] = event.turn
            case ev.Charged(usage=used):
                for kind in ("input", "output", "cache_read"):
                    self.counted["tokens", kind] += getattr(used, kind)
                self.counted["cost_usd",] += used.cost_usd  # type: ignore[assignment]
                row = self._used(event.day, run.get("agent", ""), event)
                row[2] = row[2].plus(used)
            case ev.RunEnded() if run and not run["status"]:
                self._end(event, run)
            case ev.Settled():
                if event.retry:
                    stalled = run.get("status") == "stalled" and event.retry.kind == "error"
                    add([("retries", "stall" if stalled else event.retry.kind)])
                if event.park:
                    self._park(event.park)
                self._open.pop(event.issue_id, None)
            case ev.Parked():
                self._park(event.park)
            case ev.Requested():
                add([("retries", "operator")])
            case ev.Unparked() if event.retry:
                add([("retries", "operator")])
            case ev.Skipped():
                add([("candidate_holds", event.rule)])
            case ev.Stopping() if event.cause in ("terminal", "gone", "inactive"):
                add([("reconciliation_actions", "cleanup" if event.cause == "terminal" else "stop")])
            case ev.WorkspaceGone():
                add([("reconciliation_actions", "sweep_cleanup")])
            case ev.EffectDone(verb="transition", ok=ok, detail=detail):
                needless = ok and "none needed" in detail
                add([("handoff_transitions", "skipped" if needless else "success" if ok else "error")])
            case ev.EffectDone(verb="comment", ok=ok, effect_id=name):
                add([("tracker_comments", name.split(".")[-1], "success" if ok else "error")])

    def _end(self, event: ev.RunEnded, run: dict[str, Any]) -> None:
        kinds = {"succeeded": "soft_stop" if event.soft_stop else "normal", "cancelled": "cancelled"}
        kind, seconds = kinds.get(event.status, "error"), max(event.at - run["since"], 0.0)
        run["status"] = event.status
        self.counted["worker_exits", kind] += 1
        self.durations.setdefault(kind, []).append(seconds)
        if not run.get("turn"):
            self.counted["dispatches", "success" if event.status == "succeeded" else kind] += 1
        if event.stop == "budget":
            self.counted["runs_stopped_by_budget", "turns"] += 1
        row = self._used("", run["agent"], event)
        row[0] += 1
        could_run = event.turns or event.error_kind not in AGENT_FAULTS
        row[1] += bool(run.get("turn") and could_run) and event.usage == Usage()

    def _park(self, park: ev.Park) -> None:
        self.counted["issue_parks", park.kind] += 1
        if park.kind == "budget":
            self.counted["budget_exhaustions", "turns"] += 1

    def _used(self, day: str, agent: str, event: Any) -> list[Any]:
        return self.used.setdefault((day or "1970-01-01", agent, event.model, event.issue_id), [0, 0, Usage()])

    @property
    def counters(self) -> Counted:
        """As the table has them: what was never counted is not there."""
        known = {name: float(value) for name, value in self.counted.items() if value}
        seconds = sum(sum(times) for times in self.durations.values())
        return {**known, **({("agent_runtime_seconds",): seconds} if seconds else {})}
