"""`start`, `stop`, `retry` and `unpark`: through a running service, and on the store where none runs."""

from __future__ import annotations

import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sortie.store.commands import CommandRow, pending_commands
from sortie.store.connect import connect_readonly

from .scene import BLOCK, CRASH, REVIEW, WAIT, ask, wait_until


def states_of(say: Any) -> dict[str, str]:
    return {item["identifier"]: kind for kind in ("running", "retrying", "parked") for item in status(say)[kind]}


def status(say: Any) -> Any:
    return say("status", "--json").json()


def test_without_a_store_nothing_is_made(scene, say):
    said = say("unpark", "T-1")
    assert said.code == 1
    assert "sortie run" in said.err
    assert not (scene.directory / ".sortie.db").exists()


def test_the_service_carries_out_stop_unpark_and_retry(scene, say):
    scene.issue(1, WAIT + REVIEW)
    with scene.service() as service:
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: states_of(say) == {"T-1": "running"})
        stopped = say("stop", "T-1")
        assert (stopped.code, stopped.out) == (0, "T-1 is being stopped and parked.\n")
        wait_until(lambda: states_of(say) == {"T-1": "parked"})
        assert status(say)["parked"][0]["kind"] == "operator"
        refused = say("stop", "T-1")
        assert refused.code == 1
        assert "not running" in refused.err
        scene.go()
        assert say("retry", "T-1").code == 0
        wait_until(lambda: not states_of(say) and say("history", "--json").json()[0]["status"] == "succeeded")
        unknown = say("unpark", "T-99")
        assert unknown.code == 1
        assert "T-99 is not known" in unknown.err
        assert service.poll() is None


def test_without_a_service_the_store_is_changed_itself(scene, say):
    scene.issue(1, BLOCK)
    scene.issue(2, BLOCK)
    scene.run("run", "--until-idle")
    freed = say("unpark", "T-1")
    assert (freed.code, freed.out) == (0, "T-1 is free to start again.\n")
    assert states_of(say) == {"T-1": "retrying", "T-2": "parked"}
    again = say("unpark", "T-1")
    assert again.code == 1
    assert "not parked" in again.err
    assert "by hand" in say("why", "T-1").out
    (scene.directory / "plan" / "T-1").write_text(REVIEW)
    done = scene.run("run", "--until-idle")
    assert re.search(r"^T-1 +handed off", done.stdout, re.MULTILINE), done.stderr


@pytest.mark.parametrize("verb", ["unpark", "retry", "stop"])
def test_a_known_issue_in_another_state_is_answered_with_its_state(scene, say, verb):
    """Worked on and handed over, done meanwhile, or never active: the tracker knows it by either of its names."""
    scene.issue(1, REVIEW)
    scene.issue(2, REVIEW, state="Backlog")
    scene.run("run", "--until-idle")
    for name in ("T-1", "1"):
        said = say(verb, name)
        assert (said.code, said.err) == (
            1,
            f"{name} is in In Review, which is not an active state (To Do, In Progress).\n",
        )
    assert say(verb, "T-2").err == "T-2 is in Backlog, which is not an active state (To Do, In Progress).\n"
    assert "T-99 is not known" in say(verb, "T-99").err


def test_stop_after_the_service_was_killed_parks_at_the_next_start(scene, say):
    scene.issue(1, WAIT + REVIEW)
    with scene.service() as service:
        wait_until(lambda: "standing by" in say("logs", "T-1").out)
        service.send_signal(signal.SIGKILL)
        service.wait()
    assert say("stop", "T-1").code == 0
    done = scene.run("run", "--until-idle")
    assert done.returncode == 3, done.stderr
    assert status(say)["parked"][0]["kind"] == "operator"


def test_a_waiting_issue_is_hurried_or_called_off_without_a_service(scene, say):
    scene.issue(1, CRASH)
    scene.issue(2, CRASH)
    with scene.service() as service:
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: states_of(say) == {"T-1": "retrying", "T-2": "retrying"})
        service.send_signal(signal.SIGTERM)
        service.wait(30)
    assert "exit code 7" in say("status").out
    waits = say("why", "T-1", "--json").json()["situation"]
    assert waits["state"] == "waiting"
    assert "not running" in waits["text"]
    assert say("stop", "T-2").code == 0
    assert states_of(say) == {"T-1": "retrying", "T-2": "parked"}
    due = status(say)["retrying"][0]["due_at"]
    assert "tried again now" in say("retry", "T-1").out
    assert status(say)["retrying"][0]["due_at"] < due


def test_a_service_that_is_slow_to_answer_is_waited_for(scene, say):
    scene.issue(1, BLOCK)
    with scene.service() as service:
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: states_of(say) == {"T-1": "parked"})
        service.send_signal(signal.SIGSTOP)
        with scene.background("stop", "T-1") as asked:
            database = scene.directory / ".sortie.db"
            wait_until(lambda: pending(database))
            assert asked.poll() is None
            service.send_signal(signal.SIGCONT)
            _, err = asked.communicate(timeout=30)
    assert asked.returncode == 1
    assert err.splitlines()[-1] == "T-1 is not running."  # it may have said before that it waits


def test_a_service_that_was_suspended_is_told_as_that_while_it_is_waited_for(scene, say):
    """By Ctrl-Z, mostly: whoever waits sees why, and what to do."""
    scene.issue(1, BLOCK)
    with scene.service() as service:
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: states_of(say) == {"T-1": "parked"})
        service.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: f"The service is suspended: pid {service.pid}, " in say("status").out)
            asked = scene.background("stop", "T-1")
            said = asked.stderr.readline()
        finally:
            service.send_signal(signal.SIGCONT)
        asked.communicate(timeout=30)
    suspended = f"which is suspended: `fg` in its terminal, or `kill -CONT {service.pid}`, lets it go on"
    assert said == f"waiting for the service, process {service.pid}, {suspended} …\n"


def pending(database: Path) -> list[CommandRow]:
    with closing(connect_readonly(database)) as db:
        return pending_commands(db)


def test_several_issues_all_of_them_or_all_of_one_kind_are_freed_at_once(scene, say):
    for number in range(1, 6):
        scene.issue(number, BLOCK)
    scene.run("run", "--until-idle")
    assert say("unpark", "T-1", "T-2").out == "T-1 is free to start again.\nT-2 is free to start again.\n"
    assert say("stop", "--reason", "unparked").code == 0
    assert [item["identifier"] for item in status(say)["parked"] if item["kind"] == "operator"] == ["T-1", "T-2"]
    assert say("unpark", "--reason", "operator").out.count("free to start again") == 2
    assert say("unpark", "--reason", "budget").out == "There is nothing to unpark.\n"
    assert say("retry", "--all").code == 0
    assert states_of(say) == {f"T-{number}": "retrying" for number in range(1, 6)}


def test_one_answer_of_several_that_is_a_refusal_makes_the_command_fail(scene, say):
    scene.issue(1, BLOCK)
    scene.run("run", "--until-idle")
    said = say("unpark", "T-1", "T-9")
    assert said.code == 1
    assert "T-1 is free" in said.out
    assert "T-9 is not known" in said.err


def test_a_service_stops_everything_at_once(scene, say):
    for number in range(1, 4):
        scene.issue(number, WAIT + REVIEW)
    with scene.service():
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: len(status(say)["running"]) == 3)
        assert say("stop", "--all").out.count("is being stopped and parked") == 3
        wait_until(lambda: len(status(say)["parked"]) == 3)


def test_which_issues_are_meant_must_be_said_and_said_once(say):
    for arguments in (
        ("unpark",),
        ("stop",),
        ("start",),
        ("stop", "T-1", "--all"),
        ("retry", "T-1", "--reason", "error"),
    ):
        refused = say(*arguments)
        assert refused.code == 2
        assert "--all" in refused.err


def test_start_without_a_service_is_queued_for_the_next_one(scene, say):
    """Also an issue that the store has never seen: only a service can ask the tracker about it."""
    scene.issue(1, BLOCK)
    scene.issue(2, REVIEW, state="Backlog")
    scene.run("run", "--until-idle")
    said = say("start", "T-2", "T-1", "T-2")
    assert (said.code, said.err) == (0, "")
    assert [line.partition(":")[0] for line in said.out.splitlines()] == ["T-2 is queued", "T-1 is queued"]
    assert "sortie run -w" in said.out
    waiting = pending(scene.directory / ".sortie.db")
    assert [(command.verb, command.issue) for command in waiting] == [("start", "T-2"), ("start", "T-1")]
    assert states_of(say) == {"T-1": "parked"}, "nothing else is changed"


def test_start_chooses_among_what_is_parked_or_waits(scene, say):
    for number in (1, 2):
        scene.issue(number, BLOCK)
    scene.run("run", "--until-idle")
    assert say("stop", "--all").out == "There is nothing to stop.\n"
    assert say("start", "--reason", "budget").out == "There is nothing to start.\n"
    assert say("start", "--reason", "signal").out.count("is queued") == 2
    assert {command.issue for command in pending(scene.directory / ".sortie.db")} == {"T-1", "T-2"}


def test_start_leaves_a_running_service_the_command(scene, say):
    scene.issue(1, BLOCK)
    with scene.service() as service:
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: states_of(say) == {"T-1": "parked"})
        service.send_signal(signal.SIGSTOP)
        with scene.background("start", "T-1") as asked:
            (command,) = wait_until(lambda: pending(scene.directory / ".sortie.db"))
            assert (command.verb, command.issue) == ("start", "T-1")
            service.send_signal(signal.SIGCONT)
            out, err = asked.communicate(timeout=30)
    assert (out + err).startswith(("T-1", "start")), "the answer of the service"


def test_start_without_a_store_makes_none(scene, say):
    said = say("start", "T-1")
    assert said.code == 1
    assert "sortie run" in said.err
    assert not (scene.directory / ".sortie.db").exists()


def test_each_reason_is_offered_once(capsys):
    said = " ".join(ask(capsys, "unpark", "--help").out.split())
    named = said.partition("wait for this reason: ")[2].partition(".")[0].split(", ")
    assert "error" in named and len(named) == len(set(named))
