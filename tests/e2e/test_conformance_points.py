"""The nine conformance points of the status file protocol, in its order, each with a real agent process."""

from __future__ import annotations

from .project import merged
from .shell import BLOCKED, REVIEW, says, writes

TURNS = {"agent": {"max_turns": 4}}


def test_point_1_the_status_is_read_after_each_completed_turn_before_the_retry_decision(project):
    """A2O-25 A2O-15: written in turn 3, it ends the run in turn 3, and no retry is decided."""
    project.workflow(TURNS)
    project.add("1", f"{says('turn $SORTIE_TURN')}; [ $SORTIE_TURN = 3 ] && {BLOCKED}; true")
    project.run()
    assert project.diary() == ["turn 1", "turn 2", "turn 3"]
    assert project.settled("1").retry is None


def test_point_2_both_words_are_recognised(project):
    """A2O-25 A2O-05: each is a soft stop; only review is handed over."""
    project.workflow({"tracker": {"handoff_state": "Review"}})
    project.add("1", BLOCKED)
    project.add("2", REVIEW)
    project.run()
    assert [project.only_run(i).soft_stop for i in ("1", "2")] == ["blocked", "needs-human-review"]
    assert [project.state(i) for i in ("1", "2")] == ["To Do", "Review"]


def test_point_3_unknown_values_are_ignored(project):
    """A2O-25 A2O-12: the agent gets its next turn, and a warning is left."""
    project.workflow(TURNS)
    project.add("1", f"{writes(b'on-holiday')}; {says('turn $SORTIE_TURN')}")
    project.run()
    assert project.diary() == [f"turn {turn}" for turn in (1, 2, 3, 4)]
    assert project.notes("1").count("unknown value, ignored: 'on-holiday'") == 4


def test_point_4_read_errors_are_absence_with_a_warning(project):
    """A2O-25 A2O-13: a directory in the file's place never fails the run."""
    project.workflow(TURNS)
    project.add("1", f"mkdir -p .sortie/status; {says('turn $SORTIE_TURN')}")
    project.run()
    assert len(project.diary()) == 4
    assert project.only_run("1").status == "succeeded"
    assert project.notes("1").count("could not be read") == 4


def test_point_5_the_file_is_deleted_before_each_new_dispatch(project):
    """A2O-25 A2O-18: the word of one run never reaches the next."""
    project.workflow({"budget": {"per_issue": {"sessions": 3}}})
    project.add(
        "1", f"{says('$(cat .sortie/status 2>/dev/null)')}; mkdir -p .sortie; echo going > .sortie/status; exit 1"
    )
    project.run()
    assert len(project.runs("1")) == 3
    assert project.diary() == ["", "", ""]


def test_point_6_the_orchestrator_never_writes_the_file(project):
    """A2O-25 A2O-17: after the run it is the agent's file, byte for byte and time for time."""
    project.add("1", f"{BLOCKED}; stat -c '%i %.9Y %.9Z' .sortie/status >> $DIARY")
    project.run()
    project.run()
    status = project.workspace("1") / ".sortie" / "status"
    assert status.read_bytes() == b"blocked\n"
    found = status.stat()
    written, changed = (f"{ns // 10**9}.{ns % 10**9:09}" for ns in (found.st_mtime_ns, found.st_ctime_ns))
    assert project.diary() == [f"{found.st_ino} {written} {changed}"]


def test_point_7_the_file_itself_moves_nothing_in_the_tracker(project):
    """A2O-25 A2O-07 A2O-22: without a hand-off state neither word causes a transition; blocked never does."""
    settings = project.record_tracker_calls()
    project.workflow(settings)
    project.add("1", BLOCKED)
    project.add("2", REVIEW)
    project.run()
    project.workflow(merged(settings, {"tracker": {"handoff_state": "Review"}}))
    project.add("3", BLOCKED)
    project.run()
    assert not [line for line in project.diary() if "transition" in line]
    assert {issue["state"] for issue in project.issues()} == {"To Do"}


def test_point_8_links_at_any_component_are_read_errors(project):
    """A2O-25 A2O-19: at the file, and at its folder."""
    outside = project.root / "outside"
    outside.mkdir()
    (outside / "status").write_text("blocked\n")
    project.add("1", f"mkdir -p .sortie; ln -s {outside}/status .sortie/status")
    project.add("2", f"rm -rf .sortie; ln -s {outside} .sortie")
    project.run()
    for issue_id in ("1", "2"):
        assert project.only_run(issue_id).soft_stop == ""
        assert "Symbolic link refused" in project.notes(issue_id)


def test_point_9_the_clean_up_refuses_links_too(project):
    """A2O-25 A2O-19: what a link leads to is not deleted, at either level."""
    outside = project.root / "outside"
    outside.mkdir()
    (outside / "status").write_text("precious")
    file, folder = f"mkdir .sortie; ln -s {outside}/status .sortie/status", f"ln -s {outside} .sortie"
    project.workflow({"hooks": {"after_create": f"if [ $SORTIE_ISSUE_ID = 1 ]; then {file}; else {folder}; fi"}})
    for issue_id in ("1", "2"):
        project.add(issue_id)
    project.run()
    assert (outside / "status").read_text() == "precious"
    for issue_id in ("1", "2"):
        assert "the old status file was not deleted: skipped" in project.notes(issue_id)
