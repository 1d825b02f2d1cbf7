"""`sortie init`: a workflow to begin with, which runs as it is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import click
from msgspec import Struct

from ..errors import ConfigurationError, SortieError
from .format import clean, program
from .main import DONE


class Server(Struct, frozen=True, kw_only=True):
    """A tracker on a server: what stands for the project and the address until somebody names them, and which
    variable has the key. Without an `endpoint` the adapter knows the address."""

    project: str
    project_is: str
    variable: str
    key_is: str
    endpoint: str = ""


SERVERS = {
    "github": Server(
        project="owner/repo",
        project_is="Repository (owner/repo)",
        variable="GITHUB_TOKEN",
        key_is="a token with the permission Issues: read and write",
    ),
    "jira": Server(
        project="PROJ",
        project_is="Key of the project",
        variable="JIRA_API_TOKEN",
        key_is="email:token, with a token of https://id.atlassian.com/manage-profile/security/api-tokens",
        endpoint="https://your-domain.atlassian.net",
    ),
}
TRACKERS = ("file", *SERVERS)
# What runs leave beside the workflow: the store with its logs, sockets and archives, the workspaces, a lock.
IGNORED = ("/.sortie.*", "/workspaces/", "/issues.json.lock")
AGENTS = {
    "command": """\
agent:
  kind: command             # any program: the prompt comes on its standard input
  command: ./agent.sh       # run with `sh -c` in the workspace of the issue""",
    "mock": """\
agent:
  kind: mock                # no program: plays a script, for trying things out""",
}
NO_HOOKS = """\
# hooks:                    # shell commands, run in the workspace
#   after_create: git clone --depth 1 https://example.com/your/repo.git .
#   before_run: git pull --rebase"""
CLONE = """\
hooks:                      # shell commands, run in the workspace, which is empty at first
  after_create: git clone --depth 1 {}.git .
  # before_run: git pull --rebase"""
# Their programs have to be installed and logged in; `sortie doctor` says what is missing.
AGENTS |= {
    kind: f"""\
agent:
  kind: {kind:<20}# its program must be installed and logged in: see docs/agents.md"""
    for kind in ("claude-code", "codex", "copilot-cli", "opencode", "gemini", "acp")
}


@click.command("init")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".", metavar="[DIR]")
@click.option("--tracker", type=click.Choice(TRACKERS), default=TRACKERS[0], help="Where the issues are.")
@click.option("--agent", type=click.Choice(list(AGENTS)), help="Who works on them; asked for on a terminal.")
@click.option("--project", help="Its repository or project; asked for on a terminal.")
@click.option("--endpoint", help="The address of its server; for Jira it is asked for on a terminal.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def init_command(
    directory: Path, tracker: str, agent: str | None, project: str | None, endpoint: str | None, force: bool
) -> int:
    """Write a commented WORKFLOW.md and a sample agent into DIR, and sample issues where they are in a file.

    With the file tracker and the command or the mock agent the result works as it is: `sortie run --until-idle`
    hands both sample issues over for review and ends with 0. Other agents need their program, other trackers a key:
    ask `sortie doctor --probe`.
    """
    server = SERVERS.get(tracker)
    block = _template(f"tracker-{tracker}.yaml").rstrip()
    if server:
        given = {"project": project, "endpoint": endpoint}
        endpoint = endpoint or (_asked("Address of the site", server.endpoint) if server.endpoint else "")
        project = project or _asked(server.project_is, server.project)
        _refuse_unusable(tracker, project, endpoint)
        block = block.replace("@ENDPOINT@", f"  endpoint: {json.dumps(endpoint)}\n" if endpoint else "")
        block = block.replace("@PROJECT@", json.dumps(project))
    elif project or endpoint:
        raise ConfigurationError("--project and --endpoint are for trackers on a server.", fix="Add --tracker.")
    agent = agent or _ask_agent()
    code = _repository(project, endpoint) if tracker == "github" and project else ""
    hooks = CLONE.format(code) if code else NO_HOOKS
    workflow = _template("WORKFLOW.md")
    for mark, text in (("@TRACKER@", block), ("@AGENT@", AGENTS[agent]), ("@HOOKS@", hooks)):
        workflow = workflow.replace(mark, text)
    texts = {"WORKFLOW.md": workflow}
    if not server:
        texts["issues.json"] = _template("issues.json")
    if agent == "command":
        texts["agent.sh"] = _template("agent.sh")
    _refuse_to_lose(directory, [*texts], force=force)
    ignored, told = _hidden_from_git(directory / ".gitignore")
    _write(directory, {name: text.encode() for name, text in texts.items()} | ignored)
    for name in texts:
        click.echo(f"wrote {clean(str(directory / name))}")
    if told:
        click.echo(clean(told))
    where = "" if directory == Path() else f" {shlex.quote(str(directory))}"
    if server:
        click.echo(f"\nSet {server.variable} first: {server.key_is}.")
        written = {"project": project, "endpoint": endpoint}
        for key, value in written.items():
            if not given[key] and value and value == getattr(server, key):
                click.echo(f"Correct tracker.{key} in {clean(str(directory / 'WORKFLOW.md'))}.")
        click.echo(
            f"Agents begin with a clone of {clean(code)}: see hooks.after_create in the workflow."
            if code
            else "Agents begin in an empty directory: hooks.after_create in the workflow can fetch the code."
        )
    until_idle = "" if server else " --until-idle"
    click.echo(f"\nNext:\n  {program()} doctor{where}\n  {program()} run{where}{until_idle}")
    return DONE


def _repository(project: str, endpoint: str | None) -> str:
    """Where git finds the code of a GitHub repository: an API is on a path of its site, or on a host below it."""
    site = urlsplit(endpoint or "https://github.com")
    return f"{site.scheme}://{site.netloc.removeprefix('api.')}/{project}"


def _asked(what: str, usual: str) -> str:
    """Of a person, where one is there; else what stands for it until somebody corrects the file."""
    return str(click.prompt(what, default=usual)) if _is_on_terminal() else usual


def _ask_agent() -> str:
    if not _is_on_terminal():
        return "command"
    answer: str = click.prompt("Agent", type=click.Choice(list(AGENTS)), default="command")
    return answer


def _is_on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _refuse_unusable(kind: str, project: str, endpoint: str) -> None:
    """What its adapter would refuse is not written down first."""
    from ..plugins import load_tracker
    from ..trackers.tracker import TrackerSettings

    settings = TrackerSettings(kind=kind, active_states=(), project=project, endpoint=endpoint, api_key="set later")
    for key, sentence in load_tracker(kind).check(settings):
        if key in ("tracker.project", "tracker.endpoint"):
            raise ConfigurationError(f"--{key.removeprefix('tracker.')} cannot be used: {sentence}")


def _template(name: str) -> str:
    return files("sortie.cli").joinpath("templates", "init", name).read_text("utf-8")


def _refuse_to_lose(directory: Path, names: list[str], *, force: bool) -> None:
    """Before anything is written: neither what is there already, nor what is no file, is replaced or opened."""
    for path in (directory / name for name in (*names, ".gitignore")):
        if os.path.lexists(path) and not path.is_file():
            raise SortieError(f"{path} is no regular file.", fix="Move it away, or choose another directory.")
    in_the_way = [name for name in names if os.path.lexists(directory / name)]
    if in_the_way and not force:
        raise SortieError(
            f"{directory} holds {', '.join(in_the_way)} already.", fix="Choose another directory, or add --force."
        )


def _hidden_from_git(path: Path) -> tuple[dict[str, bytes], str]:
    """What to write there, and what to say. Lines of other people stay; a link stays too: git follows none."""
    present = path.read_bytes() if path.exists() else b""
    missing = [line for line in IGNORED if line.encode() not in present.splitlines()]
    if not missing:
        return {}, ""
    if path.is_symlink():
        return {}, f"{path} is a link; if this is a git repository, ignore {' and '.join(missing)}"
    new_line = b"" if present.endswith(b"\n") or not present else b"\n"
    text = present + new_line + "".join(f"{line}\n" for line in missing).encode()
    return {path.name: text}, f"{'added to' if present else 'wrote'} {path}"


def _write(directory: Path, contents: dict[str, bytes]) -> None:
    """All or nothing: the names are given when everything is on disk. A file is made anew, never written through.
    Nothing is said before all is there: whoever reads may leave."""
    made: dict[Path, Path] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            path = directory / name
            made[path] = new = directory / f".{name}.{os.getpid()}.new"
            new.write_bytes(content)
            if name == ".gitignore" and path.exists():
                shutil.copymode(path, new)
            else:
                new.chmod(0o755 if name.endswith(".sh") else 0o644)
        for path, new in made.items():
            new.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SortieError(
            f"Nothing can be written into {directory.absolute()}: {reason}.", fix="Choose another directory."
        ) from error
    finally:
        for new in made.values():
            with suppress(OSError):  # where nothing can be written, there is nothing
                new.unlink()
