"""Agents that misbehave: each has a defined outcome, and none outlives its run."""

from __future__ import annotations

import sys

import pytest

from sortie.core import events as ev

from .processes import peak_memory_mb, wait_for
from .shell import BLOCKED, FOR_EVER, says

PYTHON = sys.executable


def test_an_agent_that_exits_at_once_is_retried_with_back_off_up_to_its_budget(project):
    """Each try is a run of its own with a rising attempt number."""
    project.workflow({"budget": {"per_issue": {"sessions": 3}}})
    project.add("1", "echo no luck today; exit 3")
    assert project.run() == 3
    runs = project.runs("1")
    assert [(run.attempt, run.status, run.turns) for run in runs] == [(n, "failed", 0) for n in (1, 2, 3)]
    assert "exit code 3: no luck today" in runs[0].error
    assert project.parked()["1"][0] == "budget"


def test_a_hundred_megabytes_in_one_line_cost_no_memory(project):
    """Output is bounded on the way in, and the log of the run stays small."""
    project.add("1", f"head -c 100M /dev/zero | tr '\\0' x; {says('printed')}; {BLOCKED}")
    service = project.start()
    service.until(lambda: project.parked())
    assert peak_memory_mb(service.pid) < 300
    service.stop()
    assert project.diary() == ["printed"]
    assert len(project.run_log()) < 3 * 1024 * 1024


def test_silence_and_an_endless_turn_are_ended(project):
    """Stalled and timed out are told apart, both are retried, and nothing is left of either."""
    project.workflow({"agent": {"stall_timeout_ms": 1000, "turn_timeout_ms": 2500}})
    project.add("silent", FOR_EVER)
    project.add("busy", "while :; do echo working; sleep 0.1; done")
    project.run()
    assert project.only_run("silent").status == "stalled"
    assert project.only_run("busy").status == "timed_out"
    assert "agent.stall_timeout_ms" in project.only_run("silent").error
    assert "agent.turn_timeout_ms" in project.only_run("busy").error
    for issue_id in ("silent", "busy"):
        assert project.settled(issue_id).retry.kind == "error"
    assert project.living() == []


def test_an_agent_that_ignores_sigterm_is_killed(project):
    """Asking comes first, force after it."""
    project.workflow({"agent": {"stall_timeout_ms": 700}})
    project.add("1", f"trap '' TERM; {says('deaf')}; {FOR_EVER}")
    project.run()
    assert project.diary() == ["deaf"]
    assert project.only_run("1").status == "stalled"
    assert project.living() == []


@pytest.mark.parametrize("daemon", ["setsid", "setsid env -i PATH=$PATH", "setsid setsid -f"])
def test_a_daemon_does_not_outlive_its_turn(project, daemon):
    """A new session, and an emptied environment, do not hide a process from the end of its run."""
    project.add("1", f"{daemon} sh -c '{FOR_EVER}' >/dev/null 2>&1 & {BLOCKED}")
    project.run()
    assert project.only_run("1").soft_stop == "blocked"
    assert project.living() == []


def test_an_agent_that_removes_its_workspace_fails_and_gets_a_new_one(project):
    """The next run starts in a fresh directory."""
    project.workflow({"agent": {"max_turns": 2}, "budget": {"per_issue": {"sessions": 2}}})
    project.add("1", f'[ $SORTIE_ATTEMPT = 2 ] && {BLOCKED} && exit; cd / && rm -rf "$SORTIE_WORKSPACE"')
    project.run()
    first, second = project.runs("1")
    assert first.status == "failed"
    assert "no longer the directory that was opened" in first.error
    assert (second.status, second.soft_stop) == ("succeeded", "blocked")


def test_an_agent_that_puts_a_link_in_place_of_its_workspace_gets_no_further_turn(project):
    """Nothing of ours is written or started behind the link."""
    project.workflow({"agent": {"max_turns": 3}})
    aside = project.root / "aside"
    project.add("1", f'{says("turn")}; cd / && mv "$SORTIE_WORKSPACE" {aside} && ln -s /etc "$SORTIE_WORKSPACE"')
    project.run()
    assert project.diary() == ["turn"]
    assert project.only_run("1").status == "failed"
    assert "a symbolic link took its place" in project.only_run("1").error


def test_an_agent_that_puts_a_link_in_place_of_its_folder_fools_nobody(project):
    """`.sortie` as a link is a warning at each read and nothing else."""
    project.workflow({"agent": {"max_turns": 2}})
    project.add("1", f"{BLOCKED}; mv .sortie kept; ln -s kept .sortie; {says('turn')}")
    project.run()
    assert project.diary() == ["turn", "turn"]
    assert project.notes("1").count("Symbolic link refused") >= 2


def test_closing_its_output_does_not_end_a_turn(project):
    """The turn ends with the process; a silent one is a stall."""
    project.workflow({"agent": {"stall_timeout_ms": 20_000}})
    gate = project.root / "gate"
    project.add("1", f"exec >&- 2>&-; {says('closed')}; while [ ! -e {gate} ]; do sleep 0.05; done; {BLOCKED}")
    service = project.start()
    service.until(lambda: project.diary())
    assert project.runs("1") == []
    gate.touch()
    service.until(lambda: project.runs("1"))
    service.stop()
    assert project.only_run("1").soft_stop == "blocked"


def test_bytes_that_are_no_text_and_terminal_commands_do_no_harm(project):
    """The log of the run and every command keep working."""
    project.add("1", f"printf '\\377\\376 \\033[2J\\033]0;title\\007 \\000 end\\n'; {BLOCKED}")
    project.run()
    assert "end" in project.run_log()
    for command in (["logs", "T-1"], ["why", "T-1"], ["status"]):
        answer = project.sortie(*command)
        assert answer.returncode == 0, answer.stderr
        assert "\x1b" not in answer.stdout
    assert "\x1b" not in project.output()


def test_false_success_is_not_invented(project):
    """A process that is killed from outside is a failed turn, not a completed one."""
    project.add("1", f"{BLOCKED}; kill -9 $$")
    project.run()
    run = project.only_run("1")
    assert (run.status, run.soft_stop) == ("failed", "")
    assert "SIGKILL" in run.error


def test_a_hundred_children_are_all_ended(project):
    """A tree of processes in sessions of their own ends with the run."""
    project.workflow({"agent": {"stall_timeout_ms": 1500}})
    project.add(
        "1", f"for i in $(seq 50); do setsid sh -c 'sleep 600 & sleep 600' & done; {says('ready')}; {FOR_EVER}"
    )
    project.run()
    assert project.diary() == ["ready"]
    wait_for(lambda: not project.living())


def test_an_agent_does_not_see_the_environment_of_the_service(project):
    """Only a short list and what `agent.env` names is passed on."""
    project.add("1", 'env > "$SORTIE_WORKFLOW_DIR/environment"')
    project.run(SOMETHING_PRIVATE="hidden", GITHUB_TOKEN="also hidden")
    seen = (project.root / "environment").read_text()
    assert "SORTIE_ISSUE_IDENTIFIER=T-1" in seen
    assert f"DIARY={project.diary_path}" in seen
    assert "hidden" not in seen


def test_an_agent_cannot_fill_the_store_with_its_complaints(project):
    """Errors and names of conversations without end: a few are remembered, the rest is in the log of the run."""
    retry = '{"type":"system","subtype":"api_retry","attempt":1,"error_status":500,"error":"oh"}'
    opened = '{"type":"system","subtype":"init","session_id":"s%d","mcp_servers":[]}'
    project.add("1", f"for n in $(seq 2000); do printf '{opened}\\n' $n; echo '{retry}'; done")
    project.workflow({"agent": {"kind": "claude-code", "command": f"sh {project.root}/agents/1.sh"}})
    project.run()
    assert project.only_run("1").status == "failed"
    assert len(project.events(ev.Noted, "1")) < 60
    assert len(project.events(ev.SessionStarted, "1")) < 30
    assert project.run_log().count("attempt 1 failed") > 1900


def test_an_agent_that_tells_impossible_numbers_spoils_nothing(project):
    """More tokens than a database can hold, less than none, money without end: the run ends like any other."""
    lines = [
        f'{{"type":"assistant","message":{{"id":"{n}","content":[],"usage":{{"input_tokens":{told},"output_tokens":1}}}}}}'
        for n, told in enumerate([2**70, 2**63, -5, 2**62, 7])
    ]
    usage = f'{{"input_tokens":{2**80},"output_tokens":{2**80}}}'
    last = f'{{"type":"result","subtype":"success","is_error":false,"usage":{usage},"total_cost_usd":1e300}}'
    script = "\n".join(f"echo '{line}'" for line in [*lines, last])
    project.add("1", script)
    project.workflow({"agent": {"kind": "claude-code", "command": f"sh {project.root}/agents/1.sh"}})
    assert project.run() == 3, project.output()
    run = project.only_run("1")
    assert (run.status, run.tokens.input, run.tokens.output, run.cost_usd) == ("succeeded", 10**12, 10**12, 10**6)
    assert project.sortie("history", "--json").returncode == 0
    assert project.parked()["1"][0] == "budget"


def test_a_conversation_with_an_impossible_name_is_not_remembered(project):
    """The name would stand on the command line that resumes it."""
    names = ["--settings=/etc/passwd", "a b", "x" * 300, "", "$(reboot)", "new\\nline"]
    init = '{"type":"system","subtype":"init","session_id":"%s"}'
    script = "\n".join(f"printf '%s\\n' '{init % name}'" for name in names)
    project.add("1", f'echo "$@" >> $DIARY\n{script}\n')
    project.workflow(
        {
            "agent": {"kind": "claude-code", "command": f"sh {project.root}/agents/1.sh"},
            "budget": {"per_issue": {"sessions": 2}},
        }
    )
    project.run()
    assert [run.status for run in project.runs("1")] == ["failed", "failed"]
    sessions = {event.session_id for event in project.events(ev.SessionStarted, "1")}
    assert not any(name in sessions for name in names)
    assert "--settings" not in "\n".join(project.diary())
