"""A source of one's own: chores, each a shell command that is run once and done when it succeeds.

`python chores.py` works them off and says what became of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import sortie
from sortie.core.conclude import Next, Outcome
from sortie.core.observe import Look
from sortie.core.policy import Policy
from sortie.runs.spec import AgentSpec, PromptSpec, RunLimits, WorkspaceSpec
from sortie.sources.source import RunFacts, Write


class Chores:
    """Implements `sortie.Source`."""

    name = "chores"
    policy = Policy(active_states=("todo",), terminal_states=("done",), max_concurrent=2)
    secrets = watched_files = ()
    poll_interval = 60.0
    keep_days = 7.0

    def __init__(self, directory: Path, commands: Mapping[str, str]) -> None:
        self.workspace_root = str(directory / "workspaces")
        self._commands = commands
        self.issues = {name: sortie.Issue(id=name, identifier=name, title=name, state="todo") for name in commands}

    # what there is to do

    async def look(self, schedule: sortie.Schedule) -> Look:
        active = {key: issue for key, issue in self.issues.items() if issue.state == "todo"}
        return Look(issues=active, states={key: issue.state for key, issue in self.issues.items()})

    async def fetch(self, issue_id: str) -> sortie.Issue:
        return self.issues[issue_id]

    async def find(self, name: str) -> sortie.Issue:
        return await self.fetch(name)

    async def fetch_states(self, issue_ids: Any) -> dict[str, str]:
        return {key: self.issues[key].state for key in issue_ids if key in self.issues}

    async def transition(self, issue_id: str, state: str) -> None:
        self.issues[issue_id] = replace(self.issues[issue_id], state=state)

    # how it is run

    def workspace_key(self, identifier: str) -> str:
        return sortie.workspace_key(identifier)

    def spec_for(self, issue: sortie.Issue, run: RunFacts) -> sortie.RunSpec:
        return sortie.RunSpec(
            store_id=run.store_id,
            run_id=run.claim.run_id,
            attempt=run.claim.attempt,
            issue=issue,
            agent=AgentSpec(kind="command", command=self._commands[issue.id]),
            prompt=PromptSpec(text=f"Do {issue.title}.", is_template=False),
            workspace=WorkspaceSpec(root=self.workspace_root, key=self.workspace_key(issue.identifier)),
            limits=RunLimits(max_turns=1),
        )

    # how its end is judged

    def writes_at_end(self, issue: sortie.Issue, outcome: Outcome, *_: object) -> list[Write]:
        is_done = outcome.status == "succeeded" and not outcome.soft_stop
        return [Write(name="done", verb="transition", argument="done")] if is_done else []

    def conclude(self, outcome: Outcome, state: str, handed: bool | None) -> Next:
        if outcome.soft_stop:
            return Next(then="parked", why=outcome.reason or outcome.soft_stop)
        return Next(then="released", why=f"it is {state}")

    # what chores do without

    async def comment(self, issue_id: str, body: str) -> None:
        pass

    async def call_tool(self, issue_id: str, tool: str, arguments: object) -> dict[str, Any]:
        return {"error": "there are no tools"}

    async def aclose(self) -> None:
        pass

    def warnings(self, look: Look) -> tuple[()]:
        return ()

    def writes_at_start(self, *_: object) -> tuple[()]:
        return ()

    def progress_state(self, issue: sortie.Issue) -> str:
        return ""

    def needs_login(self, kind: str) -> bool:
        return False

    def missing_agent(self) -> None:
        return None

    def removal_of(self, *_: object) -> None:
        return None

    def renew(self) -> None:
        return None


def main() -> None:
    here = Path(__file__).parent
    chores = Chores(here, {"tidy": "echo tidy > log", "polish": "echo shiny > log"})
    host = sortie.LocalHost(here / "chores.db")
    sortie.serve(sortie.Orchestrator(chores, [host], here / "chores.db"), until_idle=True)
    for issue in chores.issues.values():
        print(f"{issue.identifier}: {issue.state}")


if __name__ == "__main__":
    main()
