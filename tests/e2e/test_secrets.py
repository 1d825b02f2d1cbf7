"""Keys and passwords: in no log, no error, no answer of a command and no byte of the store."""

from __future__ import annotations

from .project import Project
from .shell import says

KEY = "sk-live-0123456789abcdef"
TOKEN = "tok~with spaces/and+signs=="

TELLS_ALL = f"""
echo "key $AGENT_API_KEY token $SERVICE_TOKEN"; echo "{{\\"key\\": \\"$AGENT_API_KEY\\"}}" >&2
{says("printed")}
"""


def workflow(project: Project, **hooks: str) -> None:
    project.workflow(
        {
            "tracker": {
                "api_key": "$TRACKER_KEY",
                "comments": {"on_dispatch": True, "on_completion": True, "on_failure": True},
            },
            "agent": {"env": ["DIARY", "AGENT_API_KEY", "SERVICE_TOKEN"]},
            "hooks": {"before_run": 'echo "hook has $AGENT_API_KEY"', **hooks},
        }
    )


def places_with(project: Project, secret: str) -> list[str]:
    """Files of the project that hold the secret, apart from what the agent itself wrote in its workspace."""
    files = [path for path in project.root.rglob("*") if path.is_file() and project.workspaces not in path.parents]
    return [path.name for path in files if secret.encode() in path.read_bytes()]


def test_a_secret_that_an_agent_prints_stays_out_of_everything(project):
    """Printed, put in the reason, the error and the hook's output: it is hidden everywhere a person looks."""
    workflow(project, after_run='echo "$SERVICE_TOKEN"; exit 1')
    project.add(
        "1",
        f'{TELLS_ALL} mkdir -p .sortie; printf "blocked\\nreason: $AGENT_API_KEY $SERVICE_TOKEN" > .sortie/status',
    )
    project.add("2", f'{TELLS_ALL} echo "denied for $AGENT_API_KEY"; exit 1')
    project.add("3", f'{TELLS_ALL} mkdir -p .sortie; echo "$AGENT_API_KEY" > .sortie/status')
    secrets = {"TRACKER_KEY": KEY + "-tracker", "AGENT_API_KEY": KEY, "SERVICE_TOKEN": TOKEN}
    project.environment.update(secrets)
    project.run()
    assert project.diary() == ["printed"] * 3
    for secret in (KEY, TOKEN):
        assert places_with(project, secret) == []
    assert "key [redacted] token [redacted]" in project.run_log()
    assert project.parked()["1"] == ("signal", "[redacted] [redacted]")
    for command in (
        ["status"],
        ["status", "--json"],
        ["history"],
        ["history", "--json"],
        ["why", "T-1"],
        ["why", "T-2"],
        ["why", "T-3"],
        ["logs", "T-1"],
        ["logs", "T-2"],
        ["validate"],
        ["run", "--dry-run"],
    ):
        answer = project.sortie(*command)
        for secret in (KEY, TOKEN):
            assert secret not in answer.stdout + answer.stderr, command


def test_a_key_in_a_broken_workflow_is_not_shown(project):
    """The problem is told, the value is not."""
    project.workflow({"tracker": {"api_key": KEY, "active_states": 7}})
    assert project.run() == 2
    assert "active_states" in project.output()
    assert KEY not in project.output()


def test_agents_do_not_get_the_trackers_key(project):
    """It is the orchestrator's, and no agent can print what it does not have."""
    workflow(project)
    project.add("1", 'env > "$SORTIE_WORKFLOW_DIR/environment"')
    project.run(TRACKER_KEY=KEY, SORTIE_TRACKER_API_KEY=KEY)
    assert KEY not in (project.root / "environment").read_text()


def test_a_key_that_a_coding_agent_is_given_by_default_is_hidden_too(project):
    """It needs no mention in the workflow to be passed on, and none to be kept out of the logs."""
    script = """
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"I have '"$ANTHROPIC_API_KEY"'"}]}}'
echo "complaint about $ANTHROPIC_API_KEY" >&2
echo '{"type":"result","subtype":"success","is_error":true,"result":"refused: '"$ANTHROPIC_API_KEY"'"}'
"""
    project.add("1", script)
    project.workflow(
        {
            "agent": {"kind": "claude-code", "command": f"sh {project.root}/agents/1.sh"},
            "hooks": {"before_run": 'echo "${ANTHROPIC_API_KEY-the hook has none}"'},
        }
    )
    project.environment["ANTHROPIC_API_KEY"] = KEY
    project.run()
    assert project.only_run("1").error == "refused: [redacted]"
    assert "before_run: the hook has none" in project.run_log()
    assert "I have [redacted]" in project.run_log()
    assert "complaint about [redacted]" in project.run_log()
    assert places_with(project, KEY) == []
