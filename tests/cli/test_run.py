"""`sortie run` without a terminal: log lines, closing table, exit codes, preview, drain."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

from .scene import BLOCK, CRASH, DEADLINE, REVIEW, WAIT, Scene, is_alive, wait_until

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (debug|info |warn |error) \S.*")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """T-1 is handed off, T-2 waits for it, which a review may end."""
    scene = Scene(tmp_path_factory.mktemp("finished"))
    scene.issue(1, REVIEW)
    scene.issue(2, REVIEW, blocked_by=[{"id": "1", "identifier": "T-1"}])
    return scene.run("run", "--until-idle")


def test_until_idle_ends_with_0_when_all_is_done(scene):
    scene.issue(1, REVIEW)
    assert scene.run("run", "--until-idle").returncode == 0


def test_until_idle_ends_with_a_table_and_3_when_something_is_blocked(finished):
    assert finished.returncode == 3, finished.stderr
    header, first, second = finished.stdout.splitlines()
    assert header.split() == ["issue", "outcome", "attempts", "turns", "tokens", "time", "reason"]
    assert re.match(r"T-1 +handed off +1 +1 .*look", first)
    assert re.match(r"T-2 +not started +0 .*T-1", second), "what could not start is in the table too"


def test_text_lines_have_time_level_and_identifier(finished):
    lines = finished.stderr.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert any(" info  T-1 started run " in line for line in lines)
    assert any(" info  T-1 turn 1 started" in line for line in lines)
    assert not any(" debug " in line for line in lines)


def test_until_idle_ends_with_3_when_something_is_parked(scene):
    scene.issue(1, BLOCK)
    done = scene.run("run", "--until-idle")
    assert done.returncode == 3, done.stderr
    assert re.search(r"^T-1 +parked +1 .*no access", done.stdout, re.MULTILINE)
    assert re.search(r"^T-1 +held back +.*no access", scene.run("run", "--dry-run").stdout, re.MULTILINE)
    again = scene.run("run", "--until-idle")
    assert again.returncode == 3, "it is still parked"
    assert re.search(r"^T-1 +parked +0 .*no access", again.stdout, re.MULTILINE)


def test_nothing_to_do_is_said(scene):
    done = scene.run("run", "--until-idle")
    assert (done.returncode, done.stdout) == (0, "There was nothing to do.\n")


def test_who_is_stopped_before_the_first_look_does_not_claim_that_there_was_nothing_to_do(scene):
    tracker = "kind: github\n  project: a/b\n  api_key: key\n  endpoint: http://127.0.0.1:1"  # nobody listens there
    scene.workflow.write_text(scene.workflow.read_text().replace("kind: file", tracker))
    with scene.service("--until-idle") as service:
        wait_until(lambda: "cannot be used" in (scene.directory / "service.log").read_text())
        service.terminate()
        said, _ = service.communicate(timeout=DEADLINE)
    assert (service.returncode, said) == (1, "Stopped; nothing was interrupted.\n")


def test_json_lines_are_objects(scene):
    scene.issue(1, REVIEW)
    lines = [
        json.loads(line) for line in scene.run("run", "--until-idle", "--log-format", "json").stderr.splitlines()
    ]
    assert all({"time", "level", "event", "message"} <= line.keys() for line in lines)
    (claim,) = [line for line in lines if line["event"] == "claim"]
    assert (claim["issue"], claim["issue_id"], claim["attempt"]) == ("T-1", "1", 1)
    (end,) = [line for line in lines if line["event"] == "end"]
    assert (end["run_id"], end["status"]) == (claim["run_id"], "succeeded")


def test_the_level_decides_what_is_said(scene):
    scene.issue(1, REVIEW)
    assert scene.run("run", "--until-idle", "--log-level", "error").stderr == ""


def test_the_workflow_sets_format_and_level(scene):
    scene.issue(1, REVIEW)
    text = scene.workflow.read_text().replace("polling:", "logging: {format: json, level: debug}\npolling:")
    scene.workflow.write_text(text)
    lines = [json.loads(line) for line in scene.run("run", "--until-idle").stderr.splitlines()]
    assert any(line["level"] == "debug" for line in lines)


def test_hostile_text_is_harmless_in_lines_and_tables(scene):
    title = "\x1b[2Jgone\nT-9 forged line\r[red]x[/red]\u202e\x07"
    plan = "printf '\\033[2Jboo\\007 [red]x[/red]\\n'\n" + BLOCK.replace("no access", "\\033]0;evil\\007 [bold]y")
    scene.issue(1, plan, title=title, identifier="T-1\x1b[31m")
    (scene.directory / "plan" / "T-1\x1b[31m").write_text(plan)
    done = scene.run("run", "--until-idle", "--log-level", "debug")
    for text in (done.stdout, done.stderr, scene.run("status").stdout, scene.run("run", "--dry-run").stdout):
        assert all(line.isprintable() for line in text.split("\n")), ascii(text)
    assert "[bold]y" in done.stdout
    assert not [line for line in done.stderr.splitlines() if not LINE.fullmatch(line)]


def test_dry_run_names_the_states_where_nothing_would_start(scene):
    scene.issue(1, REVIEW, state="ToDo")
    done = scene.run("run", "--dry-run")
    assert "no issue is in an active state (To Do, In Progress): the tracker has ToDo (1)." in done.stderr
    assert "nothing would start" in done.stdout


def test_dry_run_names_the_records_that_cannot_be_used(scene):
    scene.issue(1, REVIEW)
    scene.issue(2, REVIEW, title=3)
    done = scene.run("run", "--dry-run")
    assert re.search(r"^warning: .*record 2 \(T-2\) cannot be used", done.stderr, re.MULTILINE)
    assert re.search(r"^T-1 +would start ", done.stdout, re.MULTILINE)


def test_dry_run_shows_every_candidate_and_leaves_nothing_behind(scene):
    scene.issue(1, REVIEW)
    scene.issue(2, REVIEW, blocked_by=[{"id": "1", "identifier": "T-1"}])
    before = sorted(scene.directory.iterdir())
    done = scene.run("run", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^T-1 +would start ", done.stdout, re.MULTILINE)
    assert re.search(r"^T-2 +held back +it waits for others: T-1", done.stdout, re.MULTILINE)
    decisions = json.loads(scene.run("run", "--dry-run", "--json").stdout)
    assert [(decision["do"], decision["identifier"]) for decision in decisions] == [
        ("start", "T-1"),
        ("skip", "T-2"),
    ]
    assert sorted(scene.directory.iterdir()) == before


def test_a_second_service_is_refused_with_the_holder(scene):
    scene.issue(1, WAIT + REVIEW)
    with scene.service() as service:
        wait_until(lambda: (scene.directory / ".sortie.db.lock").exists())
        wait_until(lambda: "T-1 started" in (scene.directory / "service.log").read_text())
        done = scene.run("run", "--until-idle")
    assert done.returncode == 1
    assert f"pid {service.pid}" in done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_ends_the_agents_and_says_what_will_be_resumed(scene):
    scene.issue(1, 'echo $$ > "$base/pid"\n' + WAIT + REVIEW)
    with scene.service("--until-idle") as service:
        pid = int(wait_until(lambda: (scene.directory / "pid").exists() and (scene.directory / "pid").read_text()))
        service.send_signal(signal.SIGTERM)
        out, _ = service.communicate(timeout=30)
    assert service.returncode == 1, "it was not idle yet"
    assert re.search(r"interrupted: T-1\b.*resumes", out)
    assert not is_alive(pid)
    scene.go()
    done = scene.run("run", "--until-idle")
    assert done.returncode == 0
    assert re.search(r"^T-1 +handed off", done.stdout, re.MULTILINE)


def test_signals_of_one_wish_count_as_one(scene):
    """`timeout` signals its child and its group, a terminal and a shell may both pass on Ctrl-C."""
    scene.issue(1, WAIT + REVIEW)
    with scene.service() as service:
        wait_until(lambda: "turn 1 started" in (scene.directory / "service.log").read_text())
        service.send_signal(signal.SIGSTOP)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            service.send_signal(number)
        service.send_signal(signal.SIGCONT)
        out, _ = service.communicate(timeout=30)
    assert service.returncode == 0
    assert "interrupted: T-1" in out


def test_the_exit_code_stands_where_nobody_reads_the_table(scene):
    scene.issue(1, BLOCK)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        scene.command("run", "--until-idle"),
        cwd=scene.directory,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )
    os.close(writer)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_with_nothing_running_ends_quietly(scene):
    with scene.service() as service:
        wait_until(lambda: "started" in (scene.directory / "service.log").read_text())
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=30)
    assert service.returncode == 0


def test_a_tracker_that_cannot_be_read_is_a_failure_in_one_sentence(scene):
    (scene.directory / "issues.json").write_text("[{")
    done = scene.run("run", "--until-idle")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("sortie: ")
    assert "not valid JSON" in last
    assert "Traceback" not in done.stderr


def test_a_failed_try_is_told_with_its_reason(scene):
    text = scene.workflow.read_text().replace("max_turns: 3", "max_turns: 3\n  max_retry_backoff_ms: 100")
    scene.workflow.write_text(text)
    scene.issue(1, '[ "$SORTIE_ATTEMPT" = 1 ] && { ' + CRASH.strip() + "; }\n" + REVIEW)
    done = scene.run("run", "--until-idle")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^T-1 +handed off +2 ", done.stdout, re.MULTILINE)
    assert re.search(r" warn  T-1 run failed .*exit code 7.*it broke", done.stderr)
    assert done.stderr.count("it broke") == 1, "one failure is one line"


def test_after_a_restart_a_finished_issue_is_still_called_by_its_name(scene):
    """Its clean-up comes when the tracker shows it no more."""
    issue = scene.issue(1, REVIEW)
    assert scene.run("run", "--until-idle").returncode == 0
    scene.workflow.write_text(
        scene.workflow.read_text()
        .replace("[Done]", "[Done, In Review]")
        .replace("  handoff_state: In Review\n", "")
    )
    done = scene.run("run", "--until-idle")
    assert re.search(rf" info  {issue} workspace removed", done.stderr), done.stderr
