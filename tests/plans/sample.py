"""A plan file with everything in it, and ways to write variations of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sortie.plans.load import examine, load_plan
from sortie.plans.plan import Plan

FULL = """\
# yaml-language-server: $schema=plan.schema.json
name: release-notes
goal: Notes that users understand.
workspace: run
max_parallel: 2
budget: {sessions: 50, turns: unlimited, tokens: 0, usd: 2.5}
defaults:
  agent: {kind: command, command: ./agent.sh, env: [PATH]}
  retries: 1
  on_failure: continue
  constraints: [No network]
  limits: {sessions: 3, usd: 1}
tasks:
  - name: collect
    skill: research
    objective: Find out what changed.
    context: There are many changes.
    inputs:
      - data/source.csv
      - {path: data, as: all/data, description: Everything, reference: true}
    requirements: [Be complete, Be right]
    success_criteria: [Every change is listed]
    constraints: [One hour]
    outputs:
      - {path: outbox/findings.md, description: What changed.}
      - data/
  - name: check
    skill: {text: You check.}
    objective: Check it.
    success_criteria: [It is checked]
    outputs: [./feedback.md]
    depends_on:
      - {task: collect, outputs: [data/x.json, summary.md], copy_to: source_data, on_failure: block}
    agent: {kind: mock}
    max_turns: 3
  - name: write
    skill: {file: skills/own.md}
    objective: Write it.
    success_criteria: [It is written]
    outputs: [outbox/draft.md]
    depends_on: [collect]
    wait_for: [check, {task: collect, on_failure: fail}]
    retries: 0
    retry_delay_ms: 1500
    when_failed: escalate
    skip_unsafe: true
    turn_timeout_ms: 1000
    stall_timeout_ms: 0
    limits: {sessions: unlimited}
    input_limit_bytes: 5
    outbox_limit_bytes: 6
    outbox_limit_files: 7
    priority: 8
"""

TASK: dict[str, Any] = {
    "name": "one",
    "objective": "Do it.",
    "success_criteria": ["It is done"],
    "outputs": ["result.md"],
    "agent": {"kind": "mock"},
}


def furnish(folder: Path) -> None:
    """The files that the plans here name."""
    (folder / "data").mkdir()
    (folder / "data/source.csv").write_text("a,b\n")
    (folder / "skills").mkdir()
    (folder / "skills/own.md").write_text("# Skill: own\n\nYou write.\n")
    (folder / "agent.sh").write_text("#!/bin/sh\n")


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text, "utf-8")
    return path


def write_tasks(folder: Path, *tasks: dict[str, Any], **others: Any) -> Path:
    """Tasks that differ in these from one that is good."""
    plan = {"name": "sample", "tasks": [{**TASK, **task} for task in tasks], **others}
    return write(folder, yaml.safe_dump(plan, sort_keys=False, allow_unicode=True))


def load_tasks(folder: Path, *tasks: dict[str, Any], **others: Any) -> Plan:
    return load_plan(write_tasks(folder, *tasks, **others))


def problems_of(path: Path) -> list[str]:
    """Each without the folder in front."""
    return [str(problem).removeprefix(f"{path.parent}/") for problem in examine(path)[1]]


def problems_of_tasks(folder: Path, *tasks: dict[str, Any], **others: Any) -> list[str]:
    """Key and sentence of each."""
    found = examine(write_tasks(folder, *tasks, **others))[1]
    return [f"{problem.key}: {problem.message}" for problem in found]
