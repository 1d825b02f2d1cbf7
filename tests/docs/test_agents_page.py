"""docs/agents.md names every option, every variable and every kind of error that the code knows."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sortie.agents import error_kinds as faults
from sortie.agents.cli_agent import CliAgent
from sortie.plugins import kinds, load_agent
from sortie.sources.adapters import check_workflow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text()
LOADED: list[Any] = [load_agent(kind) for kind in kinds()["agent"]]
AGENTS = [loaded for loaded in LOADED if issubclass(loaded, CliAgent)]


def section(kind: str) -> str:
    found = re.search(rf"^## {kind}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, f"docs/agents.md has no section for {kind}"
    return found[1]


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.kind)
def agent(request):
    return request.param


def test_every_option_is_described(agent):
    options = {field.name for field in msgspec.structs.fields(agent.options_type)}
    described = set(re.findall(r"`(\w+)`", section(agent.kind)))
    assert options <= described, options - described


def test_every_variable_and_the_tested_versions_are_named(agent):
    text = section(agent.kind)
    named = set(re.findall(r"`([A-Z][A-Z0-9_*]+)(?:=\w+)?`", text))
    missing = [name for name in agent.variables if not any(fnmatchcase(name, pattern) for pattern in named)]
    assert not missing
    assert all(version in text for version in agent.program.tested)


def test_every_agent_has_an_example_of_its_kind(agent):
    workflow = (ROOT / "examples" / agent.kind / "WORKFLOW.md").read_text()
    assert f"kind: {agent.kind}" in workflow


def test_the_table_of_outcomes_is_that_of_the_code():
    def rows(text: str) -> list[list[str]]:
        found = [line for line in text.splitlines() if re.match(r"\| `?\w+_\w+`? +\|", line)]
        return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in found]

    in_code = rows(faults.__doc__ or "")
    assert len(in_code) > 10
    on_page = rows(PAGE)
    assert all(row in on_page for row in in_code)


def test_the_minimal_workflow_is_valid(agent, tmp_path):
    (shown,) = re.findall(r"```yaml\n(tracker:.*?)```", section(agent.kind), re.S)
    path = tmp_path / "WORKFLOW.md"
    path.write_text(f"---\n{shown}---\nWork on {{{{ issue.identifier }}}}.\n")
    problems = [str(problem) for problem in check_workflow(path, {}, None) if problem.severity == "error"]
    assert problems == []
