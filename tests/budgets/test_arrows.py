"""Which part may import which: every arrow points one way, and the pure parts touch nothing outside."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "sortie"

ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "protocol": set(),
    "errors": set(),
    "plugins": {"errors", "agents", "trackers"},
    "file_watch": set(),
    "process": {"errors"},
    "store": {"core", "errors"},
    "workflow": {"core", "errors", "file_watch", "protocol"},
    "trackers": {"core", "errors", "protocol"},
    "agents": {"core", "process", "errors", "protocol"},
    "workspace": {"core", "process", "protocol", "errors"},
    "tools": {"protocol", "plugins", "errors", "core", "trackers", "workflow"},
    "runs": {"agents", "workspace", "process", "protocol", "workflow", "core", "errors", "tools"},
    "hosts": {"runs", "agents", "workspace", "process", "protocol", "plugins", "core", "errors", "tools"},
    "plans": {"core", "errors", "protocol", "plugins", "workflow", "agents"},
    "peers": {"core", "errors", "protocol", "process", "plugins", "workflow", "agents"},
    "sources": {
        *("core", "errors", "plugins", "protocol", "trackers", "workflow"),
        *("agents", "workspace", "tools", "runs", "hosts", "plans", "peers"),
    },
}
ALLOWED["reports"] = {*ALLOWED}
ALLOWED["engine"] = {*ALLOWED} - {"reports"}
ALLOWED["web"] = {*ALLOWED}
ALLOWED["notify"] = {"core", "errors", "protocol", "store", "workflow", "process"}
ALLOWED["cli"] = {*ALLOWED}
# For tests of other people's parts; nobody of ours imports it.
ALLOWED["testing"] = {*ALLOWED} - {"cli", "web", "notify"}
ALLOWED["__main__"] = {"cli", "tools"}
# The package itself re-exports on first use, from anywhere.
ALLOWED["__init__"] = {*ALLOWED}

# Modules of ours that run as processes, and the file that may start each: arrows that no import shows. Who starts
# one loads nothing of it.
STARTED = {
    "sortie.notify": "engine/notifier_process.py",
    "sortie.notify.addresses": "workflow/address_check.py",
    "sortie.testing.remote_worker": "testing/remote_host.py",
    "sortie.web": "engine/dashboard.py",
}

# The parts that may use nothing from other packages, or only what is named.
THIRD_PARTY = {"protocol": set(), "errors": set(), "core": {"msgspec"}}

# Clocks, chance and the outside world: with any of these `decide` could not be replayed.
IMPURE = {
    "asyncio", "fcntl", "glob", "io", "logging", "os", "pathlib", "random", "secrets", "select", "shutil",
    "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip


def part_of(path: Path, source: Path) -> str:
    first = path.relative_to(source).parts[0]
    return first.removesuffix(".py")


def imports_in(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything a file imports, in functions and for type checking too."""
    package = [source.name, *path.relative_to(source).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def problem_with(part: str, name: str, source: Path) -> str:
    """What is wrong with this import in this part, or an empty string."""
    top, *inner = name.split(".")
    if top == source.name:
        return problem_inside(part, inner[0] if inner else "__init__", source)
    if top not in sys.stdlib_module_names and part in THIRD_PARTY and top not in THIRD_PARTY[part]:
        return f"{part} -> {top}: {part} does not use this package"
    if part == "core" and top in IMPURE:
        return f"core -> {top}: the core has no clock, no chance and no outside world"
    return ""


def problem_inside(part: str, target: str, source: Path) -> str:
    if target in {part, "__version__"}:
        return ""
    is_part = (source / target).is_dir() or (source / f"{target}.py").is_file()
    if target == "__init__" or not is_part:
        # A name re-exported by the package: a way around every other rule here.
        return "" if part in {"__init__", "cli"} else f"{part} -> sortie.{target}: import it from its own module"
    return "" if target in ALLOWED[part] else f"{part} -> {target}"


def wrong_arrows(source: Path) -> list[str]:
    wrong = []
    for path in sorted(source.rglob("*.py")):
        part = part_of(path, source)
        where = path.relative_to(source.parent)
        if part not in ALLOWED:
            wrong.append(f"{where}:1: {part} is a new part: say in ALLOWED what it may import")
            continue
        for line, name in imports_in(path, source):
            if problem := problem_with(part, name, source):
                wrong.append(f"{where}:{line}: {problem}")
    return wrong


def started_modules(source: Path) -> list[tuple[str, str]]:
    """Each module of ours that stands behind a `-m`, and the file where it does."""
    found = []
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
            for flag, module in pairwise(ast.iter_child_nodes(node)):
                if text_of(flag) == "-m" and (name := text_of(module)).partition(".")[0] == source.name:
                    found.append((name, str(path.relative_to(source))))
    return sorted(found)


def text_of(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_every_arrow_points_the_right_way():
    assert wrong_arrows(SOURCE) == []


def test_a_module_of_ours_is_started_as_a_process_only_where_that_is_known():
    assert started_modules(SOURCE) == sorted(STARTED.items())


def test_each_module_that_is_started_as_a_process_is_there():
    for module in STARTED:
        place = SOURCE.joinpath(*module.split(".")[1:])
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), module


@pytest.fixture
def tree(tmp_path):
    """A small copy of the real layout, without a wrong arrow."""
    source = tmp_path / "sortie"
    for part in ("core", "protocol", "trackers", "engine", "cli"):
        (source / part).mkdir(parents=True)
        (source / part / "__init__.py").touch()
    (source / "__init__.py").write_text('__version__ = "1"\ndef f():\n    from .engine import Orchestrator\n')
    (source / "errors.py").write_text("from collections.abc import Sequence\n")
    (source / "core" / "model.py").write_text("import hashlib\nfrom msgspec import Struct\n")
    (source / "trackers" / "file.py").write_text(
        "import anyio\nfrom ..core.model import Issue\nfrom . import port\n"
    )
    (source / "engine" / "run.py").write_text("from .. import __version__\nfrom ..trackers import file\n")
    (source / "cli" / "main.py").write_text("import sortie\nfrom sortie import Orchestrator\n")
    return source


def test_a_tree_without_wrong_arrows_passes(tree):
    assert wrong_arrows(tree) == []


@pytest.mark.parametrize(
    ("file", "line", "arrow"),
    [
        ("core/model.py", "from ..errors import SortieError", "core -> errors"),
        ("core/model.py", "from .. import errors", "core -> errors"),
        ("core/model.py", "import sortie.engine.run", "core -> engine"),
        ("core/model.py", "from time import time", "core -> time"),
        ("core/model.py", "import os.path", "core -> os"),
        ("core/model.py", "import yaml", "core -> yaml"),
        ("core/model.py", "from sortie import Orchestrator", "core -> sortie.Orchestrator"),
        ("core/model.py", "def f():\n    from ..engine import run", "core -> engine"),
        ("protocol/status.py", "import msgspec", "protocol -> msgspec"),
        ("protocol/status.py", "from ..core.model import Issue", "protocol -> core"),
        ("errors.py", "from .core import model", "errors -> core"),
        ("trackers/file.py", "from ..engine.run import Run", "trackers -> engine"),
        ("trackers/github/client.py", "from ...engine.run import Run", "trackers -> engine"),
        ("engine/run.py", "from ..cli.main import main", "engine -> cli"),
        ("webb/app.py", "import os", "webb is a new part"),
    ],
)
def test_a_planted_wrong_arrow_is_named_with_file_and_line(tree, file, line, arrow):
    path = tree / file
    path.parent.mkdir(parents=True, exist_ok=True)
    present = path.read_text() if path.exists() else ""
    path.write_text(present + line + "\n")
    number = 1 if arrow.endswith("part") else len((present + line).splitlines())
    (found,) = wrong_arrows(tree)
    assert found.startswith(f"sortie/{file}:{number}: {arrow}")


@pytest.mark.parametrize(
    "line",
    [
        'run([sys.executable, "-P", "-m", "sortie.web", here])',
        'os.execv(sys.executable, sys.executable, "-m", "sortie.web")',
        'COMMAND = ("-m", "sortie.web")',
    ],
)
def test_a_planted_start_of_a_module_is_seen(tree, line):
    (tree / "core" / "start.py").write_text(f'commit("-m", "said")\nrun("-m", "pytest")\n{line}\n')
    assert started_modules(tree) == [("sortie.web", "core/start.py")]
