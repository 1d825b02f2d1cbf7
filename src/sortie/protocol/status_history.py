"""What is believed of a task's `status.json` over time: it only moves forward, by the agent of this attempt alone.

Every look brings a reading, and this is what becomes of it:

    what a look finds                               what is believed
    a status that goes on, or forward               that one
    running after completed, pending after running,
    anything else after completed or failed         the last good one, with a finding
    completed or failed without a running before    that one, with a finding
    no file, or one that cannot be read             the last good one, with a finding
    another attempt; without that word, a time
    before this attempt began; a lower `seq`        the last good one: a late writer, with a finding
"""

from __future__ import annotations

from dataclasses import replace

from .task_status import Reading, TaskStatus

CLOCKS_DIFFER = 60.0
_FORWARD = {
    "pending": ("running", "completed", "failed"),
    "running": ("completed", "failed"),
    "completed": (),
    "failed": (),
}


class StatusHistory:
    """`believed` is the last good status of the attempt; before there is one, that it is pending."""

    def __init__(self) -> None:
        self.believed = TaskStatus(state="pending")
        self._attempt = 0
        self._was_there = False
        self._told: list[str] = []

    def take(self, reading: Reading, now: float, attempt: int, began_at: float) -> list[str]:
        """Learn from a look; the answer is what is odd about it and was not yet at the look before.

        Another attempt than that of the last look begins anew.
        """
        if attempt != self._attempt:
            self.believed = TaskStatus(state="pending", attempt=attempt)
            self._attempt = attempt
            self._was_there = False
            self._told = []
        findings = self._learn(reading, now, began_at)
        news = [finding for finding in findings if finding not in self._told]
        self._told = findings
        return news

    def _learn(self, reading: Reading, now: float, began_at: float) -> list[str]:
        if reading.absent:
            return ["status.json is gone"] if self._was_there else []
        self._was_there = True
        status = reading.status
        if status is None:
            return [reading.problem]
        if refusal := self._refusal(status, began_at):
            return [f"{refusal}; {self.believed.state} stands"]
        findings = [*status.findings, *_in_the_future(status, now)]
        if self.believed.state == "pending" and status.is_final and status.started is None:
            # A look may come too late for `running`, but not for `started`.
            findings.append(f"status.json went from pending to {status.state} without running")
        self.believed = _with_what_was_known(status, self.believed)
        return findings

    def _refusal(self, status: TaskStatus, began_at: float) -> str:
        """Why this status is not believed, or an empty string."""
        believed = self.believed
        if status.attempt not in (None, self._attempt):
            return f"status.json is of attempt {status.attempt}, this is attempt {self._attempt}"
        # Who names the attempt is believed: agents tell their own time badly. Times are written to the second.
        early = [at for at in (status.started, status.completed) if at is not None and at < int(began_at)]
        if status.attempt is None and early:
            return "status.json has times from before this attempt began, as an earlier one would write it"
        if status.seq is not None and believed.seq is not None and status.seq < believed.seq:
            return f"status.json went back from seq {believed.seq} to {status.seq}"
        if status.state != believed.state and status.state not in _FORWARD[believed.state]:
            return f"status.json went back from {believed.state} to {status.state}"
        return ""


def _in_the_future(status: TaskStatus, now: float) -> list[str]:
    times = {"started": status.started, "completed": status.completed, "heartbeat": status.heartbeat}
    return [f"`{key}` is in the future" for key, at in times.items() if at is not None and at > now + CLOCKS_DIFFER]


def _with_what_was_known(status: TaskStatus, before: TaskStatus) -> TaskStatus:
    """Agents write the whole file anew, and many leave out what they wrote before."""
    return replace(
        status,
        started=before.started if status.started is None else status.started,
        progress=status.progress or before.progress,
        metrics=status.metrics or before.metrics,
        attempt=before.attempt if status.attempt is None else status.attempt,
        seq=before.seq if status.seq is None else status.seq,
    )
