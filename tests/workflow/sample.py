"""A workflow that loads, and ways to write variations of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sortie.core.model import Issue
from sortie.errors import ConfigurationError
from sortie.workflow.loader import Workflow, load

KINDS = {"tracker": ("file", "github"), "agent": ("command", "mock", "claude-code")}

SETTINGS = """\
tracker:
  kind: file
  active_states: [To Do, In Progress]
  terminal_states: [Done]
agent:
  kind: command
"""

PROMPT = "Work on {{ issue.title }}.\n"

ISSUE = Issue(id="1", identifier="A-1", title="Paint it", state="To Do")


def write(folder: Path, settings: str = SETTINGS, prompt: str = PROMPT) -> Path:
    path = folder / "WORKFLOW.md"
    path.write_text(f"---\n{settings}---\n{prompt}", "utf-8")
    return path


def load_text(folder: Path, settings: str = SETTINGS, prompt: str = PROMPT, **environ: str) -> Workflow:
    return load(write(folder, settings, prompt), environ=environ, kinds=KINDS)


def problems_of(folder: Path, settings: str = SETTINGS, prompt: str = PROMPT, **environ: str) -> list[str]:
    """The problems, each without the folder in front."""
    with pytest.raises(ConfigurationError) as caught:
        load_text(folder, settings, prompt, **environ)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]
