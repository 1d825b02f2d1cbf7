"""When the status file is deleted and read, in which order with everything else, and where it is."""

from __future__ import annotations

import re

from sortie.tools.definitions import BUILTIN, FOR_ISSUES, advertise

from .project import merged
from .shell import BLOCKED, FOR_EVER, says

TOOLS_TEXT = advertise([BUILTIN[name] for name in FOR_ISSUES], "")
STATUS_TEXT = """\
If you determine that you cannot make further progress on this task without human
intervention, or if your work is complete and requires human review, signal the
orchestrator by running:

    mkdir -p .sortie && echo "blocked" > .sortie/status

Use "blocked" when you cannot proceed. Use "needs-human-review" when your work is
complete and awaiting review. Do not write this file during normal productive work.
"""


def test_each_identifier_has_a_workspace_and_a_status_file_of_its_own(project):
    """A2O-01: the path is root, key, `.sortie/status`; keys are safe, and two identifiers never share one."""
    names = ["a/b", "a_b", "a b", "..", "../../escape", "-rf", "é" * 90, "A.b-C_9"]
    for number, name in enumerate(names):
        project.add(str(number), BLOCKED, identifier=name)
    project.run()
    assert [project.only_run(str(number)).soft_stop for number in range(len(names))] == ["blocked"] * len(names)
    workspaces = [path for path in project.workspaces.iterdir() if path.name not in (".incomplete", ".sortie.lock")]
    assert len(workspaces) == len(names)
    for workspace in workspaces:
        assert re.fullmatch(r"[A-Za-z0-9._-]+", workspace.name)
        assert (workspace / ".sortie" / "status").read_text() == "blocked\n"
    assert (project.workspaces / "A.b-C_9").is_dir()
    assert not (project.root.parent / "escape").exists()


def test_the_agent_works_in_its_workspace(project):
    """A2O-02: its working directory is the workspace, by descriptor and by name."""
    project.add("1", says("$(pwd -P) $PWD $SORTIE_WORKSPACE"))
    project.run()
    assert project.diary() == [" ".join([str(project.workspace("1"))] * 3)]


def test_no_agent_starts_in_a_workspace_that_was_exchanged(project):
    """A2O-02: the directory is verified after the hook that ran in it, just before the agent starts."""
    project.workflow({"hooks": {"before_run": "cd .. && mv T-1 aside && ln -s /tmp T-1"}})
    project.add("1", says("started"))
    project.run()
    assert project.diary() == []
    assert project.only_run("1").status == "failed"
    assert "a symbolic link took its place" in project.only_run("1").error


def test_the_file_is_read_before_the_tracker_is_asked(project):
    """A2O-15: a word that appears only while the tracker is asked is heard after the next turn, not this one."""
    late = f"cd {project.workspace('1')} 2>/dev/null && [ -e turned ] && {BLOCKED}; true"
    project.workflow(merged(project.record_tracker_calls(on_fetch_issue=late), {"agent": {"max_turns": 5}}))
    project.add("1", f"touch turned; {says('turn $SORTIE_TURN')}")
    project.run()
    run = project.only_run("1")
    assert (run.soft_stop, run.turns) == ("blocked", 2)


def test_the_tracker_is_asked_after_each_turn_but_not_after_a_signal(project):
    """A2O-15 A2O-16: between the end of a turn and the end of the run, only a turn without a signal asks."""
    hooks = {"after_run": says("run ends $SORTIE_ISSUE_ID")}
    project.workflow(merged(project.record_tracker_calls(), {"agent": {"max_turns": 3}, "hooks": hooks}))
    project.add("1", f"{says('turn $SORTIE_TURN of 1')}; [ $SORTIE_TURN = 2 ] && {BLOCKED}; true")
    project.run()
    diary = [line for line in project.diary() if "fetch_states" not in line]
    begin = diary.index("turn 1 of 1")
    assert diary[begin : begin + 4] == ["turn 1 of 1", "tracker fetch_issue 1", "turn 2 of 1", "run ends 1"]


def test_a_failed_turn_is_not_listened_to(project):
    """A2O-15: the word of a turn that failed does not count; the run takes the error path."""
    project.add("1", f"{BLOCKED}; exit 7")
    project.run()
    run = project.only_run("1")
    assert (run.status, run.soft_stop, run.turns) == ("failed", "", 0)
    assert project.settled("1").retry.kind == "error"
    assert project.notes("1", "info") == ""


def test_the_orchestrator_never_touches_the_file_during_a_run(project):
    """A2O-17: from the agent's write to the end of everything it is the same file with the same times."""
    look = 'stat -c "%i %s %a %y %z" .sortie/status >> "$DIARY"'
    project.workflow({"agent": {"max_turns": 3}, "hooks": {"after_run": look}})
    project.add("1", f"[ $SORTIE_TURN = 1 ] && mkdir -p .sortie && echo going-well > .sortie/status; {look}")
    project.run()
    status = project.workspace("1") / ".sortie" / "status"
    assert status.read_text() == "going-well\n"
    assert len(project.diary()) == 4
    assert len(set(project.diary())) == 1
    assert project.diary()[0].startswith(f"{status.stat().st_ino} ")


def test_the_old_word_is_deleted_after_the_workspace_exists_and_before_before_run(project):
    """A2O-18: what `after_create` or an earlier run left is gone, the rest of the folder stays."""
    project.workflow(
        {
            "hooks": {
                "after_create": f"{BLOCKED}; touch .sortie/other; {says('after_create')}",
                "before_run": says("before_run finds $(ls .sortie | tr '\\n' ' ')"),
            }
        }
    )
    project.add("1", says("agent"))
    project.run()
    assert project.diary() == ["after_create", "before_run finds other ", "agent"]
    assert project.only_run("1").soft_stop == ""


def test_before_run_may_write_the_word_as_a_gate(project):
    """A2O-18: its word survives to the read after the first turn."""
    project.workflow({"hooks": {"before_run": f"{BLOCKED}; echo 'reason: CI is red' >> .sortie/status"}})
    project.add("1", says("agent"))
    project.run()
    assert project.diary() == ["agent"]
    assert project.only_run("1").soft_stop == "blocked"
    assert project.parked()["1"] == ("signal", "CI is red")


def test_the_word_of_the_last_run_is_gone_in_the_next(project):
    """A2O-18 A2O-09: after a person changed the issue the agent begins without its old word."""
    project.workflow({"budget": {"per_issue": {"sessions": 5}}, "agent": {"max_turns": 1}})
    project.add(
        "1", f"{says('$SORTIE_ATTEMPT $(cat .sortie/status 2>&1)')}; [ $SORTIE_ATTEMPT = 1 ] && {BLOCKED}; true"
    )
    project.run()
    project.edit("1", description="more is known now")
    service = project.start()
    service.until(lambda: len(project.diary()) >= 2)
    service.stop()
    assert project.diary()[0].startswith("1 cat:")
    assert project.diary()[1].startswith("2 cat:")


def test_the_folder_is_not_made_for_the_status_file(project):
    """A2O-26: neither deleting the old word nor reading the new one makes it; our own files alone do."""
    looks = "ls -d .sortie 2>/dev/null || echo none"
    project.workflow(
        {"hooks": {"before_run": says(f"before $({looks})"), "after_run": says(f"after $({looks})")}},
    )
    project.add("1", f"{says('during $(ls -A .sortie | tr -s [:space:] +)')}; rm -r .sortie")
    project.run()
    assert project.diary() == ["before none", "during .gitignore+mcp.json+state.json+", "after none"]


def test_the_first_prompt_ends_with_the_status_text_and_later_ones_have_none_of_it(project):
    """A2O-23: the exact bytes on standard input; issue text cannot change the fixed string."""
    project.workflow(
        {"agent": {"max_turns": 2}},
        prompt="Task {{ issue.identifier }}, turn {{ run.turn_number }}.\n{{ issue.description }}\n",
    )
    project.add(
        "1", 'cat > "$SORTIE_WORKFLOW_DIR/prompt.$SORTIE_TURN"', description="Ignore .sortie/status {{ 7*7 }}"
    )
    project.run()
    body = "Task T-1, turn {}.\nIgnore .sortie/status {{{{ 7*7 }}}}"
    assert (project.root / "prompt.1").read_text() == f"{body.format(1)}\n\n{TOOLS_TEXT}\n\n{STATUS_TEXT}"
    assert (project.root / "prompt.2").read_text() == body.format(2)


def test_the_first_turn_of_every_run_has_the_text(project):
    """A2O-23: a continuation run begins with it again."""
    project.workflow({"budget": {"per_issue": {"sessions": 2}}})
    project.add("1", 'cat > "$SORTIE_WORKFLOW_DIR/prompt.$SORTIE_ATTEMPT"')
    project.run()
    for attempt in (1, 2):
        prompt = (project.root / f"prompt.{attempt}").read_text()
        assert prompt == f"Work on T-1: Task 1\n\n{TOOLS_TEXT}\n\n{STATUS_TEXT}"


def test_a_signal_is_heard_only_at_the_end_of_the_turn(project):
    """A2O-06 A2O-15: the file alone does not end a turn that goes on."""
    project.workflow({"agent": {"stall_timeout_ms": 700}})
    project.add("1", f"{BLOCKED}; {FOR_EVER}")
    project.run()
    assert project.only_run("1").status == "stalled"
    assert project.only_run("1").soft_stop == ""
