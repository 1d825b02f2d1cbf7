"""What a person does about a task that failed, what a crash leaves, and what a changed plan does again."""

from __future__ import annotations

import os
import signal
import textwrap
from functools import partial

import anyio
import pytest

from sortie.engine.orchestrator import Orchestrator
from sortie.hosts.local_host import LocalHost
from sortie.plans.load import load_plan
from sortie.sources.plan_tasks import PlanSource

from .processes import is_alive, wait_for

GATE = 'until [ -e "$SORTIE_WORKFLOW_DIR/go" ]; do :; done'


def test_a_failed_attempt_is_kept_and_the_next_one_begins_anew(plan):
    """BOX-07, TBX-13: outbox, workspace and status of each attempt below attempts/NNN."""
    script = """\
        n=$(ls attempts 2>/dev/null | wc -l)
        say "finds $(ls -A outbox workspace | tr -d ' \\n')"
        echo "$n" > workspace/scratch; echo "$n" > outbox/part; echo stray > stray
        [ "$n" -lt 2 ] && exit 1
        rm outbox/part; deliver
    """
    plan.task("one", textwrap.dedent(script), retries=2)
    plan.run()
    attempts = plan.folder("one") / "attempts"
    assert sorted(path.name for path in attempts.iterdir()) == ["001", "002"]
    for number, name in enumerate(("001", "002")):
        assert (attempts / name / "workspace" / "scratch").read_text() == f"{number}\n"
        assert (attempts / name / "outbox" / "part").read_text() == f"{number}\n"
        assert (attempts / name / "stray").exists() and (attempts / name / "status.json").exists()
    assert plan.diary() == ["one finds outbox:workspace:"] * 3
    assert plan.status_of("one")["attempt"] == 3
    assert [row.status for row in plan.history("one")] == ["failed", "failed", "succeeded"]


def test_attempts_are_bounded_and_a_person_gets_all_of_them_again(plan):
    """BOX-07, TBX-13: retry"""
    plan.task("one", "say begins; exit 1", retries=1)
    plan.run(3)
    assert len(plan.diary()) == 2
    assert plan.sortie("retry", "one").stdout == "one is tried again.\n"
    plan.run(3)
    assert len(plan.diary()) == 4
    assert plan.states() == {"one": "failed"}


def test_what_the_orchestrator_left_running_cannot_be_decided_about_but_stopped(plan):
    plan.task("slow", f"say begins; {GATE}; deliver")
    running = plan.start()
    plan.until_said("slow begins")
    plan.kill(running)
    for verb in ("retry", "skip", "accept"):
        assert "when the orchestrator died" in plan.sortie(verb, "slow", code=1).stderr
    plan.sortie("stop", "slow")
    plan.run(3)
    assert plan.states() == {"slow": "escalated"}
    plan.sortie("skip", "slow")
    assert "plan why slow" in plan.sortie("run", code=3).stdout


def test_a_skipped_task_lets_its_dependants_decide(plan):
    """BOX-07: skip"""
    plan.task("bad", "exit 1")
    plan.task("without", depends_on=[{"task": "bad", "on_failure": "continue"}], wait_for=["gate"])
    plan.task("gate", "exit 1")
    plan.task("needs", depends_on=["bad"])
    plan.run(3)
    assert "without, needs decide" in plan.sortie("skip", "bad").stdout
    plan.sortie("skip", "gate")
    plan.run(3)
    assert plan.states() == {"bad": "skipped", "without": "blocked", "gate": "skipped", "needs": "blocked"}
    assert "bad was skipped" in plan.note("needs")


def test_an_escalated_task_waits_for_a_person_who_is_told_once(plan):
    """BOX-07: escalate; the page names it, `accept` takes what is there, and the plan goes on."""
    plan.task("asks", "echo half > outbox/result.md; exit 1", when_failed="escalate", retries=1)
    plan.task(
        "after",
        "cat inbox/asks/result.md > outbox/result.md; echo x > outbox/summary.md",
        depends_on=[{"task": "asks", "outputs": ["result.md"]}],
    )
    plan.run(3)
    assert plan.states() == {"asks": "escalated", "after": "blocked"}
    assert "asks needs a person" in plan.note("after")
    page = (plan.work / "ESCALATIONS.md").read_text()
    assert page.count("## asks") == 1 and "exit code 1" in page
    plan.run(3)  # nothing starts, and nobody is told again
    assert (plan.work / "ESCALATIONS.md").read_text() == page
    assert len(plan.history("asks")) == 2
    plan.sortie("accept", "asks")
    plan.run()
    assert plan.states() == {"asks": "completed", "after": "completed"}
    assert plan.memo("asks").accepted
    assert (plan.folder("after") / "outbox" / "result.md").read_text() == "half\n"


def test_a_changed_task_frees_one_that_waited_for_a_person(plan):
    plan.task("asks", "exit 1", when_failed="escalate")
    plan.run(3)
    plan.task("asks", "deliver", objective="Do it better.")
    told = plan.sortie("run", "--dry-run").stdout.splitlines()[1].split(maxsplit=2)
    assert told == ["asks", "ready", "would be tried again: what it is asked for changed"]
    plan.run()


@pytest.mark.parametrize("words", [("accept", "one"), ("skip", "two"), ("retry", "three"), ("retry", "four")])
def test_what_cannot_be_done_is_refused_in_a_sentence(plan, words):
    plan.task("two")
    plan.task("one", "exit 1", wait_for=["two"])
    plan.task("three", wait_for=["one"])
    plan.task("four", wait_for=[{"task": "one", "on_failure": "fail"}])
    plan.run(3)
    done = plan.sortie(*words, code=1)
    assert done.stderr.count("\n") == 1 and words[1] in done.stderr


def test_commands_reach_a_plan_that_runs(plan):
    """BOX-07: the operator's hands, while the orchestrator has the store."""
    plan.task("bad", "say fails; exit 1")
    plan.task("slow", f"say begins; {GATE}; deliver")
    running = plan.start()
    plan.until_said("bad fails")
    plan.until_said("slow begins")
    wait_for(lambda: plan.states()["bad"] == "failed")
    plan.script("bad", "deliver")
    assert plan.sortie("retry", "bad").stdout == "bad is tried again.\n"
    wait_for(lambda: plan.states()["bad"] == "completed")
    assert "is running" in plan.sortie("skip", "slow", code=1).stderr
    (plan.root / "go").touch()
    assert running.wait(30) == 0


def test_an_interrupted_plan_goes_on_without_repeating_what_is_finished(plan):
    """BOX-12: kill -9 in the middle; the finished task ran once, the cut one again, and nobody is left over."""
    plan.task("first", "say ran; deliver")
    plan.task(
        "second",
        f'say ran; echo $$ > "$SORTIE_WORKFLOW_DIR/pid"; echo half > outbox/half; {GATE}; deliver; rm outbox/half',
        depends_on=["first"],
        retries=0,
    )
    plan.task("third", "say ran; deliver", depends_on=["second"])
    running = plan.start()
    plan.until_said("second ran")
    plan.kill(running)
    assert plan.states() == {"first": "completed", "second": "stale", "third": "waiting"}, "TBX-03"
    pid = int((plan.root / "pid").read_text())
    (plan.root / "go").touch()
    plan.run()
    assert not is_alive(pid)
    assert plan.diary() == ["first ran", "second ran", "second ran", "third ran"]
    assert not (plan.folder("second") / "outbox" / "half").exists()
    assert [row.status for row in plan.history("second")] == ["cancelled", "succeeded"]


def test_a_claim_that_was_complete_when_the_orchestrator_died_is_not_done_again(plan):
    """BOX-12: the agent had said completed and delivered; only the verdict was missing."""
    script = f"""\
        say ran
        deliver
        status '{{"state": "completed", "attempt": 1}}'
        say said
        {GATE}
    """
    plan.task("one", textwrap.dedent(script))
    running = plan.start()
    plan.until_said("one said")
    plan.kill(running)
    plan.run()
    assert plan.diary() == ["one ran", "one said"]
    assert not plan.memo("one").helped


def test_a_drained_plan_goes_on_too(plan):
    plan.task("one", f"say begins; {GATE}; deliver")
    running = plan.start()
    plan.until_said("one begins")
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 1
    (plan.root / "go").touch()
    plan.run()
    assert plan.diary() == ["one begins", "one begins"]


def test_an_agent_that_dies_before_its_first_sign_counts_as_an_attempt(plan):
    """TBX-03"""
    plan.task("one", "say begins; kill -9 $$", retries=2)
    plan.run(3)
    assert len(plan.diary()) == 3


# -- a changed plan ---------------------------------------------------------------------------------------------


def test_a_changed_plan_does_again_only_what_the_change_touches_and_says_so_first(plan):
    """BOX-12, TBX-13"""
    for name, waits in {"a": [], "b": ["a"], "c": ["b"], "x": []}.items():
        plan.task(name, 'say ran; deliver "$(cat inbox/*/result.md 2>/dev/null || true) $task"', depends_on=waits)
    plan.run()
    plan.diary_path.write_text("")
    plan.task("b", 'say ran; deliver "$(cat inbox/a/result.md) changed"', objective="Do b otherwise.")
    log = plan.run()
    first, second = log.splitlines()[:2]
    assert first == "To be done again: b (what it is asked for, or given, changed)."
    assert second == "After that, if what they get changes: c."
    assert plan.diary() == ["b ran", "c ran"]
    assert (plan.folder("c") / "inbox" / "b" / "result.md").read_text() == " a changed\n"


def test_what_comes_out_the_same_stops_the_change(plan):
    """TBX-12: dependants of a task that was done again are outdated only if what they get differs."""
    plan.task("a", "say ran; deliver same")
    plan.task("b", "say ran; deliver", depends_on=["a"])
    plan.run()
    plan.sortie("retry", "a")
    assert plan.states() == {"a": "ready", "b": "outdated"}
    plan.run()
    assert plan.diary() == ["a ran", "b ran", "a ran"]
    assert plan.states() == {"a": "completed", "b": "completed"}


def test_a_changed_input_is_a_change_and_a_touched_one_is_not(plan):
    (plan.root / "data").write_text("1")
    plan.task("a", "say ran; deliver", inputs=["data"])
    plan.run()
    os.utime(plan.root / "data", (1, 1))
    plan.run()
    assert plan.diary() == ["a ran"]
    (plan.root / "data").write_text("2")
    plan.run()
    assert plan.diary() == ["a ran", "a ran"]


def test_settings_that_the_agent_never_sees_are_no_change(plan):
    plan.task("a", "say ran; deliver")
    plan.run()
    plan.task("a", "say ran; deliver", retries=5, priority=1)
    plan.run()
    assert plan.diary() == ["a ran"]


def test_a_plan_that_changes_while_it_runs_is_followed(plan):
    plan.task("slow", f"say begins; {GATE}; deliver")
    plan.task("done", "say ran; deliver")
    running = plan.start()
    plan.until_said("slow begins")
    wait_for(lambda: plan.states()["done"] == "completed")
    plan.task("done", "say ran; deliver", objective="Do it again.")
    wait_for(lambda: plan.diary().count("done ran") == 2)
    plan.task("new", "say ran; deliver", wait_for=["done"])
    plan.until_said("new ran")
    plan.path.write_text("tasks: [")
    wait_for(lambda: "the last good one stays" in plan.log())
    plan.task("late", "say ran; deliver")
    plan.until_said("late ran")
    (plan.root / "go").touch()
    assert running.wait(30) == 0
    assert "to be done again: done" in plan.log()


def test_a_task_that_came_to_the_plan_while_it_ran_counts_at_its_end(plan):
    """The exit code and the table are about the plan as it is then."""
    plan.task("slow", f"say begins; {GATE}; deliver")
    plan.task("leaves", wait_for=["slow"])
    running = plan.start()
    plan.until_said("slow begins")
    plan.remove("leaves")
    plan.task("new", "say fails; exit 1")
    plan.until_said("new fails")
    (plan.root / "go").touch()
    assert running.wait(30) == 3
    assert "tested: 1 failed, 1 completed" in plan.log() and "Left to you: new." in plan.log()


def test_a_plan_that_changed_before_anybody_watched_it_is_followed(plan):
    """What is written after the plan was read, and before its run begins, is not missed."""
    plan.task("one", "say ran; deliver")
    source = PlanSource(load_plan(plan.path), plan.environment)
    plan.task("two", "say ran; deliver", wait_for=["one"])
    orchestrator = Orchestrator(source, [LocalHost(plan.store, plan.environment)], plan.store)
    plan.work.mkdir()
    anyio.run(partial(orchestrator.run, until_idle=True))
    assert plan.diary() == ["one ran", "two ran"]


def test_a_task_that_left_the_plan_is_forgotten(plan):
    plan.task("a")
    plan.task("b", "exit 1")
    plan.run(3)
    plan.remove("b")
    plan.run()
    assert plan.states() == {"a": "completed"}


def test_an_agent_that_is_not_there_costs_nothing_and_is_named(plan):
    """Nothing is started, charged or reported of a task; the plan goes on when the program is there."""
    plan.plan(defaults={"agent": {"kind": "command", "command": "deliver-it"}})
    plan.task("one")
    done = plan.sortie("run", code=3)
    assert "deliver-it" in done.stderr and "deliver-it" in plan.note("one")
    assert plan.history() == [] and not plan.folder("one").exists()
    (plan.root / "bin").mkdir()
    program = plan.root / "bin" / "deliver-it"
    program.write_text("#!/bin/sh\necho x > outbox/result.md; echo y > outbox/summary.md\n")
    program.chmod(0o755)
    plan.environment["PATH"] = f"{plan.root / 'bin'}:{plan.environment['PATH']}"
    plan.run()


def test_the_report_that_we_write_has_the_kind_that_the_agent_told(plan):
    """BOX-06"""
    failed = '{"state": "failed", "error": {"type": "ValidationError", "message": "no CSV", "recoverable": false}}'
    plan.task("one", f"status '{failed}'")
    plan.run(3)
    report = (plan.folder("one") / "outbox" / "error_report.md").read_text()
    assert "## Error Type\nValidationError\n" in report and "no CSV" in report
