"""Makes docs/conformance.md: which tests prove which rule. Run it with `python -m tests.conformance.page`.

A test names the rules it proves in its docstring. The sources are parsed, not imported, so the page says the
same on every machine.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"
RULES = Path(__file__).with_name("rules.toml")

_ID = re.compile(r"\b(?:A2O|COM|EXT|BOX|TBX|LOG)-\d+\b")

_HEAD = """\
# Conformance

Each rule of how agents and orchestrator talk, and the tests that prove it: the status file (A2O), the two
channels together (COM), the tools (EXT), the folders and graphs of plans (BOX), what that document leaves open
(TBX), and work log, charter and mailbox of peers (LOG). Tests under `tests/e2e` run the real service with real
agent processes.
This page is made from the tests by `python -m tests.conformance.page`, and a test fails when it is out of date.

| rule | what it says | proved by |
|---|---|---|
"""


def rules() -> dict[str, str]:
    """The wording of each rule, by its ID."""
    families: dict[str, dict[str, str]] = tomllib.loads(RULES.read_text("utf-8"))
    return {rule: text for family in families.values() for rule, text in family.items()}


def proofs() -> dict[str, list[str]]:
    """The tests that name each rule, as `path::name`, in the order of their paths and lines."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, docstring in _tests(ast.parse(path.read_bytes())):
            for rule in sorted(set(_ID.findall(docstring))):
                found[rule].append(f"{path.relative_to(ROOT)}::{name}")
    return dict(found)


def render() -> str:
    proved = proofs()
    rows = [f"| {rule} | {text} | {_list(proved.get(rule, []))} |\n" for rule, text in sorted(rules().items())]
    return _HEAD + "".join(rows)


def _tests(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def _list(tests: list[str]) -> str:
    return "<br>".join(f"`{test}`" for test in tests) or "nothing yet"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
