"""`sortie init`: a workflow to begin with, which runs as it is."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import click

from ..errors import SortieError
from .format import clean, program
from .main import DONE

TRACKERS = ("file",)
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
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def init_command(directory: Path, tracker: str, agent: str | None, force: bool) -> int:  # noqa: ARG001
    """Write a commented WORKFLOW.md, sample issues and a sample agent into DIR.

    With the command and the mock agent the result works as it is: `sortie run --until-idle` hands both sample
    issues over for review and ends with 0. The others need their program: ask `sortie doctor --probe`.
    """
    agent = agent or _ask_agent()
    texts = {
        "WORKFLOW.md": _template("WORKFLOW.md").replace("@AGENT@", AGENTS[agent]),
        "issues.json": _template("issues.json"),
    }
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
    click.echo(f"\nNext:\n  {program()} doctor{where}\n  {program()} run{where} --until-idle")
    return DONE


def _ask_agent() -> str:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "command"
    answer: str = click.prompt("Agent", type=click.Choice(list(AGENTS)), default="command")
    return answer


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
    directory.mkdir(parents=True, exist_ok=True)
    made: dict[Path, Path] = {}
    try:
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
    finally:
        for new in made.values():
            new.unlink(missing_ok=True)
