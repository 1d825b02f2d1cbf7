"""`sortie doctor`: all that a run needs, checked one by one, and the fix for what is missing. Changes nothing."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import click
from msgspec.structs import replace

from ..core.model import Finding
from ..engine.listen_socket import NotFree, authority, listen
from ..engine.probe import examine_agent
from ..errors import SortieError, StoreError, TrackerError, WorkspaceError
from ..peers.place import state_directory
from ..reports.words import count
from ..runs.run_log import archive_directory, logs_directory
from ..sources.adapters import build_tracker, check_workflow, load_workflow
from ..sources.warnings import look_at, unnamed_states, warnings_about
from ..store.connect import connect_readonly
from ..store.lock import holder_of, root_holder_of, root_refusal
from ..trackers.tracker import Tracker
from ..workflow.config import DEFAULT_PORT, Config
from ..workflow.loader import Workflow
from .format import clean, runnable
from .main import DONE, FAILED
from .printing import json_option, print_json, styled
from .store_access import TRACKER_DEADLINE, env_file_option, workflow_argument
from .ticker import told_when_slow

GIT_DEADLINE = 10.0
LOW_DISK_BYTES = 1024**3
FILES_OF_OUR_OWN = 64
FILES_OF_A_RUN = 16
COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}


@click.command("doctor")
@workflow_argument
@env_file_option
@json_option
@click.option(
    "--probe", is_flag=True, help="Ask the agent one real question: contacts its provider, costs a little."
)
def doctor_command(workflow: Path, env_file: Path | None, as_json: bool, probe: bool) -> int:
    """Check what a run needs and say how to get what is missing.

    The tracker is asked for its issues; nothing is changed. Exit code 0 where nothing fails, else 1.
    """
    if probe:
        click.echo("asking the agent one question; this takes a turn ...", err=True)
    checks = examine_everything(workflow, env_file, probe=probe)
    counts = Counter(check.verdict for check in checks)
    if as_json:
        print_json({"ok": not counts["FAIL"], "checks": checks})
    else:
        for check in checks:
            sentence = clean(runnable(f"{check.name}: {check.detail} {check.fix}".strip()))
            click.echo(f"{styled(check.verdict, COLOURS[check.verdict])}  {sentence}")
        click.echo(f"{counts['PASS']} passed, {counts['WARN']} warned, {counts['FAIL']} failed.")
    return FAILED if counts["FAIL"] else DONE


def examine_everything(workflow: Path, env_file: Path | None, *, probe: bool = False) -> list[Finding]:
    """The machine, then the workflow, then what the workflow needs; the last only where it can be read.

    With `probe` the agent is asked one real question, which contacts its provider and costs a little.
    """
    checks = [python(), processes(), git()]
    found = list(workflow_file(workflow, env_file))
    checks += found
    if any(check.verdict == "FAIL" for check in found):
        return checks
    loaded = load_workflow(workflow, os.environ, env_file)
    config = loaded.config
    with told_when_slow("asking the tracker"):
        found = anyio.run(tracker, config)
    with told_when_slow("looking for the agent"):
        found += anyio.run(agent, loaded, env_file, probe)
    return [
        *checks,
        *found,
        store(config),
        dashboard(config),
        workspaces(config),
        *work_log(config),
        *notifications(config),
        *repository(config),
        disk(config),
        open_files(config),
    ]


def python() -> Finding:
    """Installing asks for 3.11 or later, so this one line is for those who compare two machines."""
    return Finding("PASS", "python", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")


def processes() -> Finding:
    if Path("/proc/self/stat").exists():
        return Finding("PASS", "processes", "/proc is there, so what agents leave behind can be found")
    return Finding(
        "FAIL", "processes", "/proc is missing.", "Mount it: leftovers of agents cannot be found without it."
    )


def git() -> Finding:
    if path := shutil.which("git"):
        return Finding("PASS", "git", path)
    return Finding("WARN", "git", "not found on PATH.", "Install git if your hooks or agents use it.")


def workflow_file(workflow: Path, env_file: Path | None) -> Iterator[Finding]:
    problems = check_workflow(workflow, os.environ, env_file)
    for problem in problems:
        yield Finding("FAIL" if problem.severity == "error" else "WARN", "workflow", str(problem))
    if not any(problem.severity == "error" for problem in problems):
        yield Finding("PASS", "workflow", f"{workflow} is valid")


async def tracker(config: Config) -> list[Finding]:
    """What it finds of its own access, where it looks at that; whether it answers; then every record that cannot be
    used, and what keeps issues from being worked on."""
    name = f"tracker ({config.tracker.kind})"
    connection = build_tracker(config)
    found: list[Finding] = []
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            found += await access(connection)
        if any(finding.verdict == "FAIL" for finding in found):
            return found  # to list issues would fail for the same reason, in other words
        with anyio.fail_after(TRACKER_DEADLINE):
            candidates = await connection.fetch_candidates()
    except TimeoutError:
        late = Finding("FAIL", name, f"no answer within {TRACKER_DEADLINE:g} s.", "Check tracker.endpoint.")
        return [*found, late]
    except SortieError as error:
        return [*found, Finding("FAIL", name, error.message, error.fix)]
    finally:
        await connection.aclose()
    policy = config.policy()
    seen = look_at(candidates)
    others = unnamed_states(seen, policy)
    left_alone = f"; left alone: {others}" if others else ""
    return [
        *found,
        Finding("PASS", name, f"{count(len(candidates.issues), 'active issue')}{left_alone}"),
        *(Finding("WARN", "record", problem) for problem in candidates.problems),
        *(Finding("WARN", "issues", f"{warning}.", warning.fix) for warning in warnings_about(seen, policy)),
    ]


async def access(connection: Tracker) -> Sequence[Finding]:
    """Trackers of other packages may say anything here."""
    examine = getattr(connection, "examine", None)
    told = await examine() if examine else ()
    if not isinstance(told, Sequence) or not all(isinstance(one, Finding) for one in told):
        raise TrackerError(TrackerError.API, "the tracker failed: its `examine` answers with no list of findings.")
    return told


async def agent(workflow: Workflow, env_file: Path | None, probe: bool) -> list[Finding]:
    """What the agent's own adapter looks at, then the tool server, then the exchange where one is asked for."""
    findings = await examine_agent(workflow.config.path, os.environ, env_file, probe=probe)
    name = f"agent ({workflow.config.agent.kind})"
    return [replace(found, name=name) if found.name == "program" else found for found in findings]


def store(config: Config) -> Finding:
    path = config.db_path
    try:
        holder = holder_of(path)
        if holder is not None:
            return Finding("PASS", "store", f"{path} is in use by pid {holder.get('pid', '?')}: a service runs")
        if not path.exists():
            return writable("store", path.parent, "db_path")
        with closing(connect_readonly(path)):
            return Finding("PASS", "store", f"{path} can be read; no service runs")
    except StoreError as error:
        return Finding("FAIL", "store", error.message, error.fix)


def dashboard(config: Config) -> Finding:
    """Whether its address is free, or our own service has it."""
    server = config.server
    if server.port == 0:
        return Finding("PASS", "dashboard", "none, because server.port is 0")
    try:
        own = (holder_of(config.db_path) or {}).get("dashboard")
        if own:
            return Finding("PASS", "dashboard", f"a service runs, and serves it on {own}")
        listen(server, server.port or DEFAULT_PORT).close()
    except NotFree as error:
        # The service goes on without it where nobody asked for that port.
        return Finding("WARN" if server.port is None else "FAIL", "dashboard", error.message, error.fix)
    except StoreError as error:
        return Finding("FAIL", "dashboard", error.message, error.fix)
    return Finding("PASS", "dashboard", f"{authority(server.host, server.port or DEFAULT_PORT)} is free")


def workspaces(config: Config) -> Finding:
    root = config.workspace.root
    try:
        holder = root_holder_of(root)
        if holder is not None and holder.get("store") != str(config.db_path.resolve()):
            raise root_refusal(root, holder)
    except WorkspaceError as error:
        return Finding("FAIL", "workspaces", error.message, error.fix)
    return writable("workspaces", root, "workspace.root")


def work_log(config: Config) -> Iterator[Finding]:
    """What is wrong with the file itself, the workflow's own check says; what we remember of it lies beside it."""
    if config.worklog is not None:
        found = writable("work log", state_directory(config.worklog.parent), "worklog")
        yield found if found.verdict == "FAIL" else writable("work log", config.worklog.parent, "worklog")


def notifications(config: Config) -> Iterator[Finding]:
    """That the addresses can be used, the workflow's own check says; nobody is told anything here."""
    if channels := config.notifications:
        named = ", ".join(f"{name} ({channel.kind})" for name, channel in channels.items())
        yield Finding("PASS", "notifications", f"messages go to {named}; `sortie notify test` tries that")


def writable(name: str, directory: Path, key: str) -> Finding:
    """Whether a directory can be used, or made where it does not exist yet."""
    existing = _nearest(directory)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding("PASS", name, f"{directory} can be written")
    return Finding(
        "FAIL", name, f"{existing} cannot be written.", f"Make it writable, or set {key} to another place."
    )


def repository(config: Config) -> Iterator[Finding]:
    """Nothing to say where there is no repository, or no git to ask."""
    files = [config.db_path]
    directories = [logs_directory(config.db_path), archive_directory(config.db_path), config.workspace.root]
    # A file in it stands for a directory, which may not be there yet.
    asked = [(path, path) for path in files] + [(path, path / "file") for path in directories]
    shown = [path for path, example in asked if _would_be_committed(example)]
    if shown:
        lines = " ".join(f"{path.name}{'/' if path in directories else '*'}" for path in shown)
        yield Finding(
            "WARN",
            "repository",
            f"git does not ignore {', '.join(map(str, shown))}.",
            f"They may hold secrets; add to .gitignore, each on a line: {lines}",
        )


def _would_be_committed(path: Path) -> bool:
    """Whether the path lies in a repository that does not ignore it: git's own answer, which is 1 for that."""
    command = ["git", "-C", str(_nearest(path.parent)), "check-ignore", "--quiet", "--", str(path)]
    try:
        return subprocess.run(command, check=False, capture_output=True, timeout=GIT_DEADLINE).returncode == 1
    except (OSError, subprocess.TimeoutExpired):
        return False


def _nearest(directory: Path) -> Path:
    """The directory, or what exists of the way to it."""
    return next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))


def disk(config: Config) -> Finding:
    existing = _nearest(config.workspace.root)
    free = shutil.disk_usage(existing).free
    detail = f"{free / LOW_DISK_BYTES:.1f} GiB free at {existing}"
    if free < LOW_DISK_BYTES:
        return Finding("WARN", "disk", f"{detail}.", "Free some space, or move workspace.root.")
    return Finding("PASS", "disk", detail)


def open_files(config: Config) -> Finding:
    """The service raises the soft limit by itself, so the hard one counts."""
    agents = config.agent.max_concurrent_agents
    needed = FILES_OF_OUR_OWN + FILES_OF_A_RUN * agents
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return Finding("PASS", "open files", f"enough for {agents} agents at a time")
    return Finding(
        "WARN",
        "open files",
        f"{agents} agents at a time may need {needed}, the limit is {limit}.",
        "Raise it (ulimit -Hn), or lower agent.max_concurrent_agents.",
    )
