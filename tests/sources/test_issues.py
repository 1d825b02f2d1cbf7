"""A look of the source of issues tells every change since the last look that came to its end."""

from __future__ import annotations

import json
import os

import pytest

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.errors import TrackerError
from sortie.sources.issues import IssueSource

WORKFLOW = """\
---
tracker: {kind: file, active_states: [To Do], terminal_states: [Done]}
agent: {kind: command, command: "true"}
---
Do {{ issue.title }}
"""


class Failing:
    """A tracker that does not tell states, as often as it is told."""

    def __init__(self, tracker):
        self._tracker = tracker
        self.failures = 0

    def __getattr__(self, name):
        return getattr(self._tracker, name)

    async def fetch_states(self, issue_ids):
        if self.failures:
            self.failures -= 1
            raise TrackerError(TrackerError.TRANSPORT, "no answer")
        return await self._tracker.fetch_states(issue_ids)


@pytest.fixture
def write(tmp_path):
    def write_issues(**titles: str) -> None:
        records = [
            {"id": key[1:], "identifier": key, "title": title, "state": "To Do"} for key, title in titles.items()
        ]
        (tmp_path / "new.json").write_text(json.dumps(records))
        os.replace(tmp_path / "new.json", tmp_path / "issues.json")

    write_issues(T1="one", T2="two")
    return write_issues


@pytest.fixture
async def source(tmp_path, write):
    (tmp_path / "WORKFLOW.md").write_text(WORKFLOW)
    opened = IssueSource.open(tmp_path / "WORKFLOW.md", os.environ)
    opened.tracker = Failing(opened.tracker)
    yield opened
    await opened.aclose()


@pytest.fixture
def schedule(source):
    """It holds an issue of which the tracker has to be asked for its state."""
    made = Schedule(source.policy)
    made.apply(ev.IssueSeen(at=0.0, issue_id="9", view=ev.View(id="9", identifier="T9", title="x", state="To Do")))
    made.apply(ev.Claimed(at=0.0, issue_id="9", run_id="r9", identifier="T9", attempt=1))
    return made


async def test_changes_are_told_from_the_second_look_on(source, schedule, write):
    assert (await source.look(schedule)).changed is None
    assert (await source.look(schedule)).changed == frozenset()
    write(T1="one", T2="another")
    assert (await source.look(schedule)).changed == {"2"}


async def test_what_a_failed_look_was_told_is_not_lost(source, schedule, write):
    await source.look(schedule)
    write(T1="one", T2="another")
    source.tracker.failures = 1
    with pytest.raises(TrackerError):
        await source.look(schedule)
    found = await source.look(schedule)
    assert found.changed is None or "2" in found.changed


async def test_what_somebody_else_was_told_is_not_lost(source, schedule, write):
    await source.look(schedule)
    write(T1="one", T2="another")
    await source.tracker.fetch_candidates()
    found = await source.look(schedule)
    assert found.changed is None or "2" in found.changed


async def test_a_changed_workflow_is_taken_over_without_asking_another_process(tmp_path, write, monkeypatch):
    """The service reads it while everything else waits."""
    asked = tmp_path / "asked"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(asked)!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    workflow, told = tmp_path / "WORKFLOW.md", "notifications: {me: {url: 'json://127.0.0.1/%s'}}\nagent:"
    workflow.write_text(WORKFLOW.replace("agent:", told % "first"))
    source = IssueSource.open(workflow, os.environ)
    assert asked.exists()
    asked.unlink()
    workflow.write_text(WORKFLOW.replace("agent:", told % "another"))
    renewal = source.renew()
    assert renewal and renewal.source.channels["me"].url == "json://127.0.0.1/another"
    assert not asked.exists()
    await source.aclose()
