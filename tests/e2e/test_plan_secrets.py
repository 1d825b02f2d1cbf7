"""Keys and passwords of the agents of a plan: in no log, no report and no answer of a command."""

from __future__ import annotations

from .plan_project import PlanProject
from .processes import wait_for

KEY = "sk-live-0123456789abcdef"


def places_with(plan: PlanProject, secret: str) -> list[str]:
    """Files of ours that hold it. What the agent itself wrote into its folder is its own, and the store knows the
    files that it delivered or left by their names."""
    agents = [plan.folder(task) for task in ("fails", "odd", "works")]
    files = [path for path in plan.work.rglob("*") if path.is_file() and not {*agents} & {*path.parents}]
    files = [path for path in files if not path.name.startswith(plan.store.name)]
    reports = [folder / "outbox" / "error_report.md" for folder in agents]
    found = [*files, plan.diary_path, *(report for report in reports if report.exists())]
    return [path.name for path in found if secret.encode() in path.read_bytes()]


def test_a_variable_that_is_passed_on_stays_out_of_everything(plan):
    """Printed, in the error, in the name of a file, and in what it says while it works."""
    plan.environment["AGENT_API_KEY"] = KEY
    agent = {"kind": "command", "command": 'exec sh "$SORTIE_WORKFLOW_DIR/agents/$SORTIE_ISSUE_ID.sh"'}
    plan.plan(defaults={"agent": {**agent, "env": ["DIARY", "AGENT_API_KEY"]}})
    plan.task(
        "fails",
        'echo "key $AGENT_API_KEY"; status "{\\"state\\": \\"failed\\", '
        '\\"error\\": {\\"type\\": \\"Denied\\", \\"message\\": \\"no entry for $AGENT_API_KEY\\"}}"',
        when_failed="escalate",
    )
    plan.task("odd", 'deliver; chmod u+w inbox; echo more > "inbox/$AGENT_API_KEY"')
    running = '{\\"state\\": \\"running\\", \\"progress\\": {\\"current_step\\": \\"uses $AGENT_API_KEY\\"}}'
    plan.task("works", f'status "{running}"; say at work; sleep 60')
    process = plan.start()
    plan.until_said("works at work")
    wait_for(lambda: (plan.states()["fails"], plan.states()["odd"]) == ("escalated", "completed"))
    asked = [plan.sortie(*words).stdout for words in (("status",), ("status", "--json"))]
    plan.kill(process)
    asked += [plan.sortie("why", task, *flags).stdout for task in ("fails", "odd") for flags in ((), ("--json",))]
    plan.sortie("collect", code=3)
    assert [text for text in (*asked, plan.log()) if KEY in text] == []
    assert "uses [redacted]" in asked[0] and "inbox/[redacted] was added" in asked[-2]
    assert places_with(plan, KEY) == []
