"""The single checks of `sortie doctor`: each looks at one thing, changes nothing, and knows the fix."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct

from ..agents.command import DEFAULT_COMMAND, locate
from ..engine.adapters import build_tracker
from ..engine.reload import check_workflow, load_workflow
from ..errors import SortieError, StoreError
from ..store.connect import connect_readonly
from ..store.lock import holder_of
from ..workflow.config import Config

TRACKER_DEADLINE = 30.0
LOW_DISK_BYTES = 1024**3
FILES_OF_OUR_OWN = 64
FILES_OF_A_RUN = 16


class Check(Struct, frozen=True):
    verdict: Literal["PASS", "WARN", "FAIL"]
    name: str
    detail: str
    fix: str = ""


def examine_everything(workflow: Path, env_file: Path | None) -> list[Check]:
    """The machine, then the workflow, then what the workflow needs; the last only where it can be read."""
    checks = [python(), processes(), git()]
    found = list(workflow_file(workflow, env_file))
    checks += found
    if any(check.verdict == "FAIL" for check in found):
        return checks
    config = load_workflow(workflow, os.environ, env_file).config
    return [
        *checks,
        anyio.run(tracker, config),
        agent_program(config),
        store(config),
        writable("workspaces", config.workspace.root, "workspace.root"),
        disk(config),
        open_files(config),
    ]


def python() -> Check:
    """Installing asks for 3.11 or later, so this one line is for those who compare two machines."""
    return Check("PASS", "python", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")


def processes() -> Check:
    if Path("/proc/self/stat").exists():
        return Check("PASS", "processes", "/proc is there, so what agents leave behind can be found")
    return Check(
        "FAIL", "processes", "/proc is missing.", "Mount it: leftovers of agents cannot be found without it."
    )


def git() -> Check:
    if path := shutil.which("git"):
        return Check("PASS", "git", path)
    return Check("WARN", "git", "not found on PATH.", "Install git if your hooks or agents use it.")


def workflow_file(workflow: Path, env_file: Path | None) -> Iterator[Check]:
    problems = check_workflow(workflow, os.environ, env_file)
    for problem in problems:
        yield Check("FAIL" if problem.severity == "error" else "WARN", "workflow", str(problem))
    if not any(problem.severity == "error" for problem in problems):
        yield Check("PASS", "workflow", f"{workflow} is valid")


async def tracker(config: Config) -> Check:
    name = f"tracker ({config.tracker.kind})"
    connection = build_tracker(config)
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            candidates = await connection.fetch_candidates()
    except TimeoutError:
        return Check("FAIL", name, f"no answer within {TRACKER_DEADLINE:g} s.", "Check tracker.endpoint.")
    except SortieError as error:
        return Check("FAIL", name, error.message, error.fix)
    finally:
        await connection.aclose()
    if candidates.problems:
        return Check("WARN", name, f"{len(candidates.issues)} active issues; {candidates.problems[0]}")
    return Check("PASS", name, f"{len(candidates.issues)} active issues")


def agent_program(config: Config) -> Check:
    """Whether a shell finds the first word of the command; what comes after it is the agent's own business."""
    name = f"agent ({config.agent.kind})"
    command = config.agent.command or (DEFAULT_COMMAND if config.agent.kind == "command" else "")
    if not command:
        return Check("PASS", name, "needs no program")
    word = _program(locate(command, config.base, config.base))
    if not word:
        return Check("WARN", name, f"cannot tell which program `{command}` starts.")
    found = subprocess.run(
        ["sh", "-c", 'command -v -- "$1"', "sh", word],
        cwd=config.base,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    path = found.stdout.decode(errors="replace").strip()
    # Some shells find a script by its path without asking whether it can be run.
    if "/" in word and (config.base / word).is_file() and not os.access(config.base / word, os.X_OK):
        return Check("FAIL", name, f"{word} is not executable.", f"Run: chmod +x {shlex.quote(word)}")
    if found.returncode != 0:
        return Check("FAIL", name, f"{word} was not found.", "Install it, or correct agent.command.")
    return Check("PASS", name, path)


def _program(command: str) -> str:
    """The first word that is neither an assignment nor a prefix."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((word for word in words if "=" not in word and word not in ("exec", "env")), "")


def store(config: Config) -> Check:
    path = config.db_path
    try:
        holder = holder_of(path)
        if holder is not None:
            return Check("PASS", "store", f"{path} is in use by pid {holder.get('pid', '?')}: a service runs")
        if not path.exists():
            return writable("store", path.parent, "db_path")
        with closing(connect_readonly(path)):
            return Check("PASS", "store", f"{path} can be read; no service runs")
    except StoreError as error:
        return Check("FAIL", "store", error.message, error.fix)


def writable(name: str, directory: Path, key: str) -> Check:
    """Whether a directory can be used, or made where it does not exist yet."""
    existing = _nearest(directory)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Check("PASS", name, f"{directory} can be written")
    return Check(
        "FAIL", name, f"{existing} cannot be written.", f"Make it writable, or set {key} to another place."
    )


def _nearest(directory: Path) -> Path:
    """The directory, or what exists of the way to it."""
    return next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))


def disk(config: Config) -> Check:
    existing = _nearest(config.workspace.root)
    free = shutil.disk_usage(existing).free
    detail = f"{free / LOW_DISK_BYTES:.1f} GiB free at {existing}"
    if free < LOW_DISK_BYTES:
        return Check("WARN", "disk", f"{detail}.", "Free some space, or move workspace.root.")
    return Check("PASS", "disk", detail)


def open_files(config: Config) -> Check:
    """The service raises the soft limit by itself, so the hard one counts."""
    agents = config.agent.max_concurrent_agents
    needed = FILES_OF_OUR_OWN + FILES_OF_A_RUN * agents
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return Check("PASS", "open files", f"enough for {agents} agents at a time")
    return Check(
        "WARN",
        "open files",
        f"{agents} agents at a time may need {needed}, the limit is {limit}.",
        "Raise it (ulimit -Hn), or lower agent.max_concurrent_agents.",
    )
