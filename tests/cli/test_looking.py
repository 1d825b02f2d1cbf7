"""`status`, `history`, `logs` and `why`: after the service ended, while it runs, and after it was killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from .scene import BLOCK, REVIEW, WAIT, WORKFLOW, Scene, ask, wait_until

ROW = {
    *("issue_id", "identifier", "attempt", "agent", "workspace", "started_at", "completed_at", "status", "error"),
    *("turns", "soft_stop", "reason", "session_id", "tokens", "cost_usd", "run_id", "model", "measured"),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A service that ended: T-1 handed off with noisy output, T-2 parked, T-3 waits for T-1, T-4 never active."""
    scene = Scene(tmp_path_factory.mktemp("ended"))
    scene.issue(1, "printf '\\033[2Jfirst [red]line[/red]\\n'; echo second >&2\n" + REVIEW)
    scene.issue(2, BLOCK)
    scene.issue(3, REVIEW, blocked_by=[{"id": "1", "identifier": "T-1"}])
    scene.issue(4, REVIEW, state="Backlog")
    done = scene.run("run", "--until-idle")
    assert done.returncode == 3, done.stderr
    return scene


@pytest.fixture
def look(ended, capsys):
    return lambda command, *arguments: ask(capsys, command, *arguments, "-w", str(ended.workflow))


def test_status_after_the_end(look):
    said = look("status")
    assert said.code == 0
    assert "not running" in said.out
    assert re.search(r"^T-2 +Task 2 +signal .*no access", said.out, re.MULTILINE)
    assert "2 of 200 sessions" in said.out


def test_status_as_json(look):
    status = look("status", "--json").json()
    assert list(status) == [
        "service",
        "running",
        "retrying",
        "parked",
        "paused",
        "totals",
        "workflow_broken",
        "ready",
        "held_back",
        "budget",
        "tool_calls",
        "tracker",
    ]
    assert status["service"] is None
    assert [(item["identifier"], item["kind"]) for item in status["parked"]] == [("T-2", "signal")]
    assert status["budget"]["today"]["sessions"] == 2
    assert status["totals"]["runs"] == {"succeeded": 2}


def test_history_has_the_fields_of_a_run(look):
    rows = look("history", "--json").json()
    assert [set(row) for row in rows] == [ROW, ROW]
    assert {row["identifier"]: row["soft_stop"] for row in rows} == {"T-1": "needs-human-review", "T-2": "blocked"}


def test_history_of_one_issue_and_limited(look):
    assert [row["identifier"] for row in look("history", "T-2", "--json").json()] == ["T-2"]
    assert len(look("history", "--limit", "1", "--json").json()) == 1
    assert look("history", "--limit", str(10**30)).code == 2


def test_history_shows_people_what_the_agent_asked_for(look):
    """A blocked run is not just "succeeded"; programs get the status of the design."""
    shown = look("history").out
    assert re.search(r"T-2 +\w+ +1 +blocked .*no access", shown)
    assert re.search(r"T-1 +\w+ +1 +needs-human-review .*look", shown)
    assert "succeeded" not in shown
    assert {row["status"] for row in look("history", "--json").json()} == {"succeeded"}


def test_history_shows_the_run_that_logs_wants(look):
    (row,) = look("history", "T-1", "--json").json()
    _, line = look("history", "T-1").out.splitlines()
    shown = line.split()[2]
    for name in (shown, row["run_id"], row["run_id"][:11]):
        assert name in row["run_id"]
        assert look("logs", "T-1", "--run", name).out == look("logs", "T-1").out != ""


def test_a_part_that_several_runs_share_is_refused(scene, say):
    scene.issue(1, BLOCK)
    scene.run("run", "--until-idle")
    say("unpark", "T-1")
    scene.run("run", "--until-idle")
    runs = {row["run_id"] for row in say("history", "--json").json()}
    shared = say("logs", "T-1", "--run", "-")
    assert shared.code == 1
    assert "has 2 runs" in shared.err and all(run in shared.err for run in runs)


def test_what_cannot_start_is_held_back_and_not_ready(look):
    shown = look("status").out
    assert re.search(r"^held back \(1\)\n.*\nT-3 +Task 3 +it waits for others: T-1$", shown, re.M)
    assert "ready (" not in shown
    status = look("status", "--json").json()
    (held,) = status["held_back"]
    assert (held["identifier"], held["rule"], held["detail"]) == ("T-3", "blocked-by", "T-1")
    assert status["ready"] == []


def test_a_crowd_that_is_held_back_is_cut_and_does_not_hide_the_next_one(scene, say):
    scene.issue(1, WAIT + REVIEW, priority=1)
    for number in range(2, 14):
        scene.issue(number, REVIEW, priority=number, blocked_by=["T-1"])
    scene.issue(14, REVIEW, priority=14)
    scene.workflow.write_text(WORKFLOW.replace("max_turns: 3", "max_concurrent_agents: 1"))
    with scene.service():
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: say("status", "--json").json()["ready"])
        shown = say("status").out
    ready, _, held = shown.partition("ready (1)")[2].partition("held back (12)")
    assert re.findall(r"^T-\d+", ready, re.M) == ["T-14"]
    assert len(re.findall(r"^T-\d+", held, re.M)) == 10
    assert "… and 2 more" in held


def test_a_crowd_that_is_ready_is_counted_and_cut(scene, say):
    for number in range(1, 14):
        scene.issue(number, WAIT + REVIEW, priority=number)
    scene.workflow.write_text(WORKFLOW.replace("max_turns: 3", "max_concurrent_agents: 1"))
    with scene.service():
        wait_until(lambda: (scene.directory / ".sortie.db").exists() and say("status").code == 0)
        wait_until(lambda: len(say("status", "--json").json()["ready"]) == 12)
        shown = say("status").out
    ready = shown.partition("ready (12)")[2]
    assert re.findall(r"^T-\d+", ready, re.M) == [f"T-{number}" for number in range(2, 12)], "the next one first"
    assert "all slots are taken" in ready
    assert "… and 2 more" in ready


@pytest.mark.parametrize("command", ["history", "logs"])
def test_an_unknown_issue_is_an_error(look, command):
    said = look(command, "T-99")
    assert said.code == 1
    assert "T-99" in said.err


def test_logs_of_the_last_run_are_harmless(look):
    said = look("logs", "T-1")
    assert said.code == 0
    texts = [line.partition("Z ")[2] for line in said.out.splitlines()]
    assert sorted(texts) == [  # standard error comes by another pipe, so it has no place among the rest
        r"agent: \x1b[2Jfirst [red]line[/red]",
        "agent: working",
        "stderr: second",
        "turn: completed",
    ]
    assert look("logs", "1").out == said.out, "an id is as good as an identifier"


def test_logs_of_a_chosen_run(look):
    claim = next(event for event in look("why", "T-1", "--json").json()["events"] if event["kind"] == "claim")
    assert look("logs", "T-1", "--run", claim["run_id"]).out == look("logs", "T-1").out
    wrong = look("logs", "T-2", "--run", claim["run_id"])
    assert wrong.code == 1
    assert "has no run" in wrong.err


def test_logs_of_an_issue_that_never_ran(look):
    said = look("logs", "T-3")
    assert said.code == 1
    assert "sortie why T-3" in said.err


def test_logs_continue_across_a_rotation(look, ended):
    claim = next(event for event in look("why", "T-2", "--json").json()["events"] if event["kind"] == "claim")
    log = ended.directory / ".sortie.logs" / f"{claim['run_id']}.log"
    log.with_suffix(".log.1").write_text("older\n")
    log.write_text("newer\n")
    assert look("logs", "T-2").out == "older\nnewer\n"


def test_why_begins_with_the_situation_and_tells_the_story(look):
    situation, *story = look("why", "T-2").out.splitlines()
    assert situation.startswith("It is parked since ")
    assert "no access" in situation and "sortie unpark T-2" in situation
    assert [line.split("  ", 1)[1].split(" ")[0] for line in story][:2] == ["started", "turn"]
    assert len(look("why", "T-2", "--all").out.splitlines()) > len(story) + 1


@pytest.mark.parametrize(
    ("issue", "state", "words"),
    [
        ("T-1", "released", "T-1 is in In Review, which is not an active state (To Do, In Progress)"),
        ("T-2", "parked", "no access"),
        ("T-3", "held-back", "T-1"),
        ("4", "unseen", "Backlog"),
        ("T-4", "unseen", "T-4 is in Backlog, which is not an active state (To Do, In Progress)"),
        ("T-99", "unknown", "not known to the tracker"),
    ],
)
def test_why_knows_every_situation_after_the_end(look, issue, state, words):
    said = look("why", issue, "--json")
    situation = said.json()["situation"]
    assert situation["state"] == state
    assert words in situation["text"]
    assert said.code == (1 if state == "unknown" else 0)


def test_why_before_the_first_run_asks_the_tracker(scene, say):
    scene.issue(1, REVIEW)
    assert say("why", "T-1", "--json").json()["situation"]["state"] == "unseen"
    assert not (scene.directory / ".sortie.db").exists()


def test_everything_works_while_the_service_runs_and_after_it_was_killed(scene, say):
    scene.issue(1, WAIT + REVIEW)
    with scene.service() as service:
        wait_until(lambda: "standing by" in say("logs", "T-1").out)
        running = say("status", "--json").json()
        assert running["service"]["pid"] == service.pid
        assert [(run["identifier"], run["turn"], run["title"]) for run in running["running"]] == [
            ("T-1", 1, "Task 1")
        ]
        assert f"pid {service.pid}" in say("status").out
        assert say("why", "T-1", "--json").json()["situation"]["state"] == "running"
        assert say("history", "--json").json() == []
        service.send_signal(signal.SIGKILL)
        service.wait()
        after = say("status")
        assert "died" in after.out and "sortie run" in after.out
        assert say("status", "--json").json()["service"] is None
        assert say("why", "T-1", "--json").json()["situation"]["state"] == "interrupted"
        assert "standing by" in say("logs", "T-1", "-f").out, "following ends where nobody goes on"
    scene.go()
    done = scene.run("run", "--until-idle")
    assert re.search(r"^T-1 +handed off", done.stdout, re.MULTILINE), done.stderr
    assert [row["status"] for row in say("history", "--json").json()] == ["succeeded", "cancelled"]


def test_following_goes_on_until_the_run_ends(scene, say):
    scene.issue(1, WAIT + "echo last words\n" + REVIEW)
    with scene.service():
        wait_until(lambda: "standing by" in say("logs", "T-1").out)
        command = scene.command("logs", "T-1", "-f")
        with subprocess.Popen(command, cwd=scene.directory, stdout=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            assert "standing by" in follower.stdout.readline()
            scene.go()
            rest = follower.stdout.read()
            assert follower.wait(30) == 0
    assert "last words" in rest
    assert "working" in rest


def test_titles_and_reasons_hide_secrets(scene, say, monkeypatch):
    monkeypatch.setenv("SORTIE_TRACKER_API_KEY", "hunter2-hunter2")
    scene.issue(1, BLOCK.replace("no access", "hunter2-hunter2 did not work"), title="use hunter2-hunter2")
    done = scene.run("run", "--until-idle", "--log-level", "debug")
    texts = [done.stdout, done.stderr, say("status").out, say("status", "--json").out, say("why", "T-1").out]
    texts += [say("history").out, json.dumps(say("history", "--json").json())]
    for text in texts:
        assert "hunter2" not in text
    assert "[redacted]" in say("status").out


@pytest.mark.parametrize(
    "broken", ["---\ntracker: {kind: [\n---\nx\n", "no settings at all", "---\nagnt: 1\n---\n"]
)
def test_a_workflow_that_broke_later_does_not_hide_the_store(scene, say, broken):
    scene.issue(1, BLOCK)
    scene.run("run", "--until-idle")
    scene.workflow.write_text(broken)
    shown = say("status")
    assert shown.code == 0
    assert "no access" in shown.out
    assert "is broken" in shown.err
    assert say("unpark", "T-1").code == 0


def test_who_only_looks_needs_no_keys(scene, say):
    """The service has them; the shell of a person who asks how it goes need not."""
    scene.issue(1, BLOCK)
    scene.run("run", "--until-idle")
    good = scene.workflow.read_text()
    scene.workflow.write_text(
        good.replace("tracker:\n", "server: {webhook_secret: $NO_SUCH}\ntracker:\n  api_key: $NONE\n")
    )
    shown = say("status", "--json")
    assert (shown.code, shown.err) == (0, "")
    assert shown.json()["workflow_broken"] is False
    assert shown.json()["budget"]["per_day"] is not None
    for command in (("history",), ("usage",), ("why", "T-1"), ("unpark", "T-1")):
        told = say(*command)
        assert (told.code, told.err) == (0, ""), command
    assert "uses $NONE, which is not set" in say("validate").out
    assert "uses $NONE, which is not set" in say("run", "--until-idle").err


def test_a_tracker_is_not_asked_without_its_key(scene, say):
    """GitHub would answer anybody, and say less."""
    tracker = "kind: github\n  project: owner/repo\n  api_key: $NONE\n  endpoint: http://127.0.0.1:1"
    scene.workflow.write_text(scene.workflow.read_text().replace("kind: file", tracker))
    shown = say("why", "owner/repo#1")
    assert shown.code == 1
    assert "the tracker could not be asked" in shown.out and "uses $NONE, which is not set" in shown.out


@pytest.mark.parametrize("line", ["db_path: $NONE/x.db", "workspace: {root: $NONE/w}"])
def test_what_is_no_secret_must_be_set_for_those_who_look_too(scene, say, line):
    """Another place would be looked at."""
    scene.issue(1, BLOCK)
    scene.run("run", "--until-idle")
    scene.workflow.write_text(scene.workflow.read_text().replace("tracker:\n", f"{line}\ntracker:\n"))
    assert "is broken" in say("status").err


def test_with_a_broken_workflow_nothing_is_made_up_of_what_only_it_can_tell(ended, look):
    """Neither what is active nor the limits: the defaults are nobody's."""
    good = ended.workflow.read_text()
    ended.workflow.write_text("---\ntracker: {kind: [\n---\nx\n")
    try:
        shown, status = look("status").out, look("status", "--json").json()
    finally:
        ended.workflow.write_text(good)
    assert "The workflow is broken" in shown
    assert "2 sessions, 2 turns" in shown and "unlimited" not in shown and "no limit" not in shown
    assert "ready (" not in shown and "held back (" not in shown
    assert status["workflow_broken"] is True
    assert (status["ready"], status["held_back"], status["budget"]["per_day"]) == ([], [], None)


def test_a_store_that_is_named_itself_has_no_workflow_that_could_be_broken(ended, capsys):
    """Its rules are those that were in force last."""
    store = str(ended.directory / ".sortie.db")
    shown, status = ask(capsys, "status", store).out, ask(capsys, "status", store, "--json").json()
    assert "broken" not in shown and "2 of " in shown
    assert (status["workflow_broken"], status["budget"]["per_day"] is None) == (False, False)


def test_an_issue_that_was_let_go_is_explained_without_its_tracker(scene, say):
    scene.issue(1, REVIEW)
    scene.run("run", "--until-idle")
    for damage in (scene.directory / "issues.json", scene.workflow):
        damage.write_text("{")
        said = say("why", "T-1", "--json")
        assert said.code == 0
        assert said.json()["situation"]["state"] == "released"


def test_status_counts_the_calls_of_tools(scene, say):
    """EXT-14: by tool and by result."""
    log = 'log=$(sed -n \'s/.*"SORTIE_TOOL_LOG": "\\(.*\\)".*/\\1/p\' "$SORTIE_MCP_CONFIG")\n'
    call = 'printf \'{"tool": "tracker_api", "result": "%s", "ms": 3}\\n\' RESULT >> "$log"\n'
    scene.issue(1, log + call.replace("RESULT", "success") * 2 + call.replace("RESULT", "error") + REVIEW)
    scene.run("run", "--until-idle")
    assert say("status", "--json").json()["tool_calls"] == {"tracker_api": {"error": 1, "success": 2}}
    assert "tracker_api 3 (1 failed)" in say("status").out
