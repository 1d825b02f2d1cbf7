"""A source of one's own: chores, each a shell command that is run once and done when it succeeds.

`python chores.py` works them off and says what became of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import sortie
from sortie import (
    AgentSpec,
    Limits,
    Look,
    Next,
    Outcome,
    Policy,
    PromptSpec,
    RunFacts,
    RunLimits,
    WorkspaceSpec,
    Write,
)


class Chores(sortie.Source):
    name = "chores"
    policy = Policy(
        active_states=("todo",), terminal_states=("done",), max_concurrent=2, per_issue=Limits(sessions=5)
    )

    def __init__(self, directory: Path, commands: Mapping[str, str]) -> None:
        self.workspace_root = str(directory / "workspaces")
        self._commands = commands
        self.issues = {name: sortie.Issue(id=name, identifier=name, title=name, state="todo") for name in commands}

    # what there is to do

    async def look(self, schedule: sortie.Schedule) -> Look:
        active = {key: issue for key, issue in self.issues.items() if issue.state == "todo"}
        return Look(issues=active, states={key: issue.state for key, issue in self.issues.items()})

    async def fetch(self, issue_id: str) -> sortie.Issue:
        if issue_id not in self.issues:
            raise sortie.TrackerError(sortie.TrackerError.NOT_FOUND, f"There is no chore {issue_id}.")
        return self.issues[issue_id]

    async def fetch_states(self, issue_ids: Any) -> dict[str, str]:
        return {key: self.issues[key].state for key in issue_ids if key in self.issues}

    async def transition(self, issue_id: str, state: str) -> None:
        self.issues[issue_id] = replace(self.issues[issue_id], state=state)

    # how it is run

    def spec_for(self, issue: sortie.Issue, run: RunFacts) -> sortie.RunSpec:
        return sortie.RunSpec(
            store_id=run.store_id,
            run_id=run.claim.run_id,
            attempt=run.claim.attempt,
            issue=issue,
            agent=AgentSpec(kind="command", command=self._commands[issue.id]),
            prompt=PromptSpec(text=f"Do {issue.title}.", is_template=False),
            workspace=WorkspaceSpec(
                root=self.workspace_root, key=self.workspace_key(issue.identifier), known=run.workspace
            ),
            resume=run.resume,
            limits=RunLimits(max_turns=1),
        )

    # how its end is judged

    def writes_at_end(self, issue: sortie.Issue, claim: sortie.Claim, outcome: Outcome, *_: object) -> list[Write]:
        is_done = outcome.status == "succeeded" and not outcome.soft_stop
        return [Write(name="done", verb="transition", argument="done")] if is_done else []

    def conclude(self, claim: sortie.Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:
        if state != "done":
            return Next(then="parked", why=outcome.reason or outcome.soft_stop or "it could not be ticked off")
        return Next(then="released", why="it is done")


def main() -> None:
    here = Path(__file__).parent
    chores = Chores(here, {"tidy": "echo tidy > log", "polish": "echo shiny > log"})
    host = sortie.LocalHost(here / "chores.db")
    sortie.serve(sortie.Orchestrator(chores, [host], here / "chores.db"), until_idle=True)
    for issue in chores.issues.values():
        print(f"{issue.identifier}: {issue.state}")


if __name__ == "__main__":
    main()
