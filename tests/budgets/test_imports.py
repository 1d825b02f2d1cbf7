"""Starting up stays cheap. The list of loaded modules is the budget: a clock would measure the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "anyio",
    "asyncio",
    "hypothesis",
    "importlib.metadata",
    "jinja2",
    "msgspec",
    "rich",
    "sqlite3",
    "yaml",
}

RUN = """
import sys
sys.argv = ["sortie", *sys.argv[1:]]
from sortie.cli.main import main
try:
    code = main()
except SystemExit as exit:
    code = exit.code
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


def modules_after(program: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_loads_nothing_heavy(argument):
    assert modules_after(RUN, argument) & HEAVY == set()


def test_importing_sortie_loads_no_part_of_it():
    modules = modules_after("import sys, sortie; print(*sys.modules, file=sys.stderr)")
    assert modules & HEAVY == set()
    assert {name for name in modules if name.startswith("sortie.")} == set()


def test_the_protocol_loads_the_standard_library_only():
    program = (
        "import pkgutil, sys, importlib, sortie.protocol as p\n"
        "for m in pkgutil.iter_modules(p.__path__): importlib.import_module(f'sortie.protocol.{m.name}')\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    known = {"sortie", "__main__", "sitecustomize"} | sys.stdlib_module_names
    before = modules_after("import sys; print(*sys.modules, file=sys.stderr)")
    loaded = {name.partition(".")[0] for name in modules_after(program) - before}
    assert loaded - known == set()


def test_a_workflow_whose_prompt_nobody_renders_loads_without_jinja(tmp_path):
    (tmp_path / "WORKFLOW.md").write_text(
        "---\ntracker: {kind: file, active_states: [a]}\n---\n{{ issue.title }}\n"
    )
    program = (
        "import sys, pathlib; from sortie.workflow.loader import load\n"
        "load(pathlib.Path(sys.argv[1]), environ={}, trial=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    loaded = modules_after(program, str(tmp_path / "WORKFLOW.md"))
    assert loaded & HEAVY == {"msgspec", "yaml"}
    assert not {name for name in loaded if name.startswith(("sortie.engine", "sortie.agents", "sortie.trackers"))}
