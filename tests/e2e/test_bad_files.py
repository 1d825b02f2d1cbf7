"""issues.json and WORKFLOW.md in every bad condition, while the service runs and at its start."""

from __future__ import annotations

import json

import pytest

from sortie.core import events as ev

from .shell import BLOCKED, REVIEW, says

UNUSABLE = {
    "missing": (None, "issues.json"),
    "half-written": (b'[{"id": "1", "identifier": "T-1", "ti', "not valid JSON"),
    "not an array": (b'{"id": "1"}', "not a JSON array"),
    "empty": (b"", "not valid JSON"),
    "not UTF-8": (b'[{"id": "\xff"}]', "issues.json"),
}


@pytest.mark.parametrize(("content", "says_why"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_tracker_file_that_cannot_be_used_ends_a_finite_run_with_a_sentence(project, content, says_why):
    """Exit code 1, and the reason in one line without a traceback."""
    project.issues_path.unlink()
    if content is not None:
        project.issues_path.write_bytes(content)
    assert project.run() == 1
    assert says_why in project.output().splitlines()[-1]
    assert "Traceback" not in project.output()


@pytest.mark.parametrize("content", [entry[0] for entry in UNUSABLE.values()], ids=UNUSABLE.keys())
def test_a_tracker_file_that_breaks_during_a_run_stops_nobody(project, content):
    """The run goes on, nothing is taken for gone, and work starts again when the file is whole."""
    gate = project.root / "gate"
    project.add("1", f"{says('one')}; while [ ! -e {gate} ]; do sleep 0.05; done; {BLOCKED}")
    service = project.start()
    service.until(lambda: project.diary())
    whole = project.issues_path.read_bytes()
    project.issues_path.unlink()
    if content is not None:
        project.put(project.issues_path, content)
    service.until(lambda: "the tracker cannot be used" in project.notes())
    assert project.events(ev.Stopping) == []
    project.put(project.issues_path, whole)
    project.add("2", says("two"))
    service.until(lambda: "two" in project.diary())
    gate.touch()
    service.until(lambda: project.runs("1"))
    service.stop()
    assert project.only_run("1").soft_stop == "blocked"


def test_bad_records_are_named_and_hide_no_good_one(project):
    """Duplicates, missing fields and wrong types are reported; the rest works."""
    project.add("1", BLOCKED)
    good = project.issues()
    bad = [
        {"id": "2", "identifier": "T-2", "title": "no state"},
        {"id": "3", "identifier": "T-3", "title": 3, "state": "To Do"},
        {"id": "4", "identifier": "T-4", "title": "first", "state": "To Do"},
        {"id": "4", "identifier": "T-5", "title": "second", "state": "To Do"},
        "not a record",
    ]
    project.put(project.issues_path, json.dumps([*bad, *good]).encode())
    project.run()
    assert project.only_run("1").soft_stop == "blocked"
    assert {claim.issue_id for claim in project.events(ev.Claimed)} == {"1"}
    for name in ("T-2", "T-3", '"4"', "record 5"):
        assert name in project.notes()


def test_what_others_write_during_a_run_is_never_lost(project):
    """Our transition and comments and a person's edit all end up in the file."""
    project.workflow(
        {"tracker": {"handoff_state": "Review", "comments": {"on_dispatch": True, "on_completion": True}}}
    )
    gate = project.root / "gate"
    project.add("1", f"{says('one')}; while [ ! -e {gate} ]; do sleep 0.05; done; {REVIEW}", extra={"kept": [1, 2]})
    service = project.start(until_idle=True)
    service.until(lambda: project.diary())
    project.edit("1", description="written meanwhile")
    project.add("2", BLOCKED, state="Somewhere else")
    gate.touch()
    assert service.wait() == 0
    issue = project.issue("1")
    assert (issue["state"], issue["description"]) == ("Review", "written meanwhile")
    assert issue["extra"] == {"kept": [1, 2]}
    assert len(issue["comments"]) == 2
    assert project.issue("2")["state"] == "Somewhere else"


def test_a_workflow_that_breaks_while_the_service_runs_changes_nothing(project):
    """The last good one stays in force, and the log says what is wrong, once."""
    project.add("1", BLOCKED)
    service = project.start()
    service.until(lambda: project.runs("1"))
    project.put(project.workflow_path, b"---\nagent: [broken\n---\nprompt\n")
    service.until(lambda: "the workflow is broken; the last good one stays" in project.notes())
    project.add("2", BLOCKED)
    service.until(lambda: project.runs("2"))
    service.stop()
    assert project.only_run("2").soft_stop == "blocked"
    assert project.notes().count("the workflow is broken") == 1


def test_what_is_mended_is_said_as_what_broke_was(project):
    """The tracker's file, one of its records, and the workflow: each once."""
    project.add("1", BLOCKED)
    service = project.start()
    service.until(lambda: project.runs("1"))
    good = project.issues()

    def told(level: str) -> list[str]:
        return [note.message for note in project.events(ev.Noted) if note.level == level and not note.issue_id]

    project.put(project.issues_path, b"[{")
    service.until(lambda: "the tracker cannot be used; nothing new starts" in told("warning"))
    project.write_issues([*good, {"id": "2"}])
    service.until(lambda: "a record of the tracker is ignored" in told("warning"))
    assert told("info") == ["the tracker can be used again"]
    project.write_issues(good)
    service.until(lambda: "every record of the tracker can be used again" in told("info"))
    project.put(project.workflow_path, b"---\nagent: [broken\n---\nprompt\n")
    service.until(lambda: "the workflow is broken; the last good one stays" in told("warning"))
    project.workflow()
    service.until(lambda: "the workflow can be used again; new runs follow it" in told("info"))
    service.stop()
    assert len(told("info")) == len(told("warning")) == 3


def test_a_changed_workflow_is_used_by_the_next_run(project):
    """The run that is going on keeps what it began with."""
    gate = project.root / "gate"
    waits = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    project.workflow({"agent": {"max_turns": 2}}, prompt="old {{ issue.id }}")
    project.add("1", f"{says('$(head -1)')}; [ $SORTIE_TURN = 2 ] || {waits}")
    service = project.start()
    service.until(lambda: project.diary())
    project.workflow({"agent": {"max_turns": 1}}, prompt="new {{ issue.id }}")
    service.until(lambda: "the workflow changed" in project.notes(level="info"))
    gate.touch()
    project.add("2", says("$(head -1)"))
    service.until(lambda: project.runs("1") and project.runs("2"))
    service.stop()
    assert sorted(project.diary()) == ["new 2", "old 1", "old 1"]


def test_a_workflow_that_is_wrong_at_the_start_is_refused_with_every_problem(project):
    """Exit code 2, file and line for each, nothing started."""
    project.put(
        project.workflow_path, b"---\ntracker: {kind: file}\nagent: {kind: command, max_turns: -1}\nx: 1\n---\np\n"
    )
    project.add("1", says("started"))
    assert project.run() == 2
    assert "WORKFLOW.md:3" in project.output()
    assert "WORKFLOW.md:4" in project.output()
    assert project.diary() == []
