"""What docs/extending.md shows lies in examples and works: alone, by its contract, and installed. So does
docs/python.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sortie
import sortie.testing

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "extending.md").read_text()
PYTHON_PAGE = (ROOT / "docs" / "python.md").read_text()
SHOWN = re.findall(r"<!-- (\S+) -->\n```python\n(.*?)\n```", PAGE, re.S)
HERE = str(Path(sortie.__file__).parents[1])

ROBOT = """\
#!/bin/sh
mkdir -p .sortie && echo needs-human-review > .sortie/status
echo '{"type": "conversation", "text": "talk-1"}'
echo '{"type": "message", "text": "At work."}'
echo '{"type": "end"}'
"""
WORKFLOW = """\
---
tracker:
  kind: board
  active_states: [Todo]
  terminal_states: [Done]
  handoff_state: Review
  comments: {on_completion: true}
board: {path: board}
agent: {kind: robot}
robot: {model: large}
---
Do {{ issue.title }}.
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of an example, away from the settings of this repository."""

    def copied(name):
        return Path(shutil.copytree(EXAMPLES / name, tmp_path / name))

    return copied


def run(place: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([HERE, str(place), str(place / "src")])
    environment = {**os.environ, "PYTHONPATH": path, **environ}
    return subprocess.run(
        words, cwd=place, env=environment, capture_output=True, text=True, timeout=55, check=False
    )


@pytest.mark.parametrize(("path", "text"), SHOWN, ids=[path for path, _ in SHOWN])
def test_what_is_shown_is_what_lies_there(path, text):
    assert text in (ROOT / path).read_text()


@pytest.mark.parametrize("name", ["team-tracker", "team-agent", "own-source"])
def test_the_tests_of_an_example_pass(copied, name):
    done = run(copied(name), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert done.returncode == 0, done.stdout


def test_the_host_keeps_the_contract(copied):
    """A few of its tests: the local host, which it is, goes through all of them elsewhere."""
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "machine or numbered or waits_for_an_answer")
    done = run(copied("own-host"), sys.executable, *words)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_the_chores_are_done(copied):
    place = copied("own-source")
    done = run(place, sys.executable, "chores.py")
    assert sorted(done.stdout.splitlines()) == ["polish: done", "tidy: done"], done.stderr
    assert (place / "workspaces" / "polish" / "log").read_text() == "shiny\n"


def test_installed_packages_are_kinds_of_a_workflow(tmp_path):
    """Found by their entry points, which is all that installing does."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("team-tracker", "team-agent"):
        install(EXAMPLES / name, packages)
    project, programs = tmp_path / "project", tmp_path / "bin"
    for state in ("Todo", "Review", "Done"):
        (project / "board" / state).mkdir(parents=True)
    issue = {"id": "1", "identifier": "T-1", "title": "The first", "state": ""}
    (project / "board" / "Todo" / "1.json").write_text(json.dumps(issue))
    (project / "WORKFLOW.md").write_text(WORKFLOW)
    programs.mkdir()
    (programs / "robot").write_text(ROBOT)
    (programs / "robot").chmod(0o755)
    environ = {
        "PYTHONPATH": os.pathsep.join([HERE, str(packages)]),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ROBOT_API_KEY": "k",
    }
    done = run(project, sys.executable, "-m", "sortie", "run", "--until-idle", **environ)
    assert done.returncode == 0, done.stderr
    moved = json.loads((project / "board" / "Review" / "1.json").read_text())
    assert [comment["author"] for comment in moved["comments"]] == ["sortie"]


def install(package: Path, where: Path) -> None:
    """As an installer does: the module, and beside it the metadata with the entry points."""
    about = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    for module in (package / "src").glob("*.py"):
        shutil.copy(module, where)
    info = where / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    lines = []
    for group, points in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PYTHON_PAGE.partition("\n## Peers\n")[0], re.S))
def test_the_programs_of_the_python_page_run(copied, code):
    place = copied("python-program")
    (place / "program.py").write_text(code)
    done = run(place, sys.executable, "program.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", sortie.__all__)
def test_every_public_name_is_on_the_python_page(name):
    assert re.search(rf"`{name}\b", PYTHON_PAGE)


def test_every_name_for_tests_is_there_and_on_the_page():
    for name in sortie.testing.__all__:
        assert getattr(sortie.testing, name) is not None
        assert f"`{name}`" in PAGE, name


@pytest.mark.parametrize("place", re.findall(r"`(\w+)`(?:, `\w+`)* in `(sortie[\w.]+)`", PAGE))
def test_each_protocol_lives_where_the_page_says(place):
    name, module = place
    __import__(module)
    assert hasattr(sys.modules[module], name)
