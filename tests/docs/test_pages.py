"""What the pages show is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sortie.workflow.config import UNSUPPORTED, WorkflowSettings
from sortie.workflow.fields import ANY, leaves

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_the_workflow_page_has_every_setting():
    page = (ROOT / "docs/workflow.md").read_text()
    cells = re.findall(r"^\| (`.*?) \|", page, re.M)
    named = {name for cell in cells for name in re.findall(r"`([a-z_.A-Z]+)`", cell)}
    for key, _, _ in leaves(WorkflowSettings()):
        if ANY in key:
            key = key.split("." + ANY)[0]
        assert any(name == key or name.startswith(key + ".") for name in named), f"{key} is not described"
    for section in UNSUPPORTED:
        assert f"`{section}`" in page


def test_the_workflow_page_tells_the_defaults():
    page = (ROOT / "docs/workflow.md").read_text()
    for key, _, default in leaves(WorkflowSettings()):
        row = re.search(rf"^\| `{re.escape(key)}` \| `(.*?)` \|", page, re.M)
        if not row or default in ("", (), False):
            continue
        factor = 1000 if key.endswith("_ms") else 1
        is_text = isinstance(default, str | Path)
        assert (row[1] if is_text else float(row[1])) == (str(default) if is_text else default * factor), key


def test_the_workflow_page_marks_what_the_environment_overrides():
    page = (ROOT / "docs/workflow.md").read_text()
    for key, kind, _ in leaves(WorkflowSettings()):
        if row := re.search(rf"^\| .*`{re.escape(key)}`.*? \| .*? \| (yes)? ?\|", page, re.M):
            assert (row[1] == "yes") == kind.env, key


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_installing_works_where_the_system_owns_python():
    """Debian refuses `pip install` outside of an environment: every line that installs us makes or uses one."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines() if " install " in line]
    assert [line.split()[0] for line in lines] == ["uv", "pipx", "python3"]
    assert re.fullmatch(r"python3 -m venv (\S+) && \1/bin/pip install \. && export PATH=\1/bin:\$PATH", lines[2])


def test_the_readme_shows_the_demo_as_it_is(tmp_path):
    shown = re.search(r"<!-- demo: .*?-->\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown
    # As dev.py starts it, where no `sortie` is on the PATH.
    environ = os.environ | {"PATH": "/usr/bin:/bin"}
    argv = [str(Path(sys.executable).with_name("sortie")), "demo"]
    done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=55, check=True)
    seconds = re.compile(r"\d+s ")
    real = [seconds.sub("Ns ", line) for line in done.stdout.splitlines()]
    for line in shown[1].splitlines():
        assert seconds.sub("Ns ", line) in real, line
    advice = done.stdout.partition("What next\n")[2].splitlines()
    assert len(advice) == 4
    for line in advice:
        command = re.split(r"  +", line.strip(), maxsplit=1)[1]
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environ, check=True, timeout=30)
