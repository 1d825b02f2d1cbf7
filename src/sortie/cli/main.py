"""The `sortie` command: loads only the sub-command that is called, turns every error into a sentence and a code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from .. import __version__
from ..errors import ConfigurationError, SortieError

# The exit codes, which scripts rely on.
DONE = 0
FAILED = 1
USAGE = 2
UNFINISHED = 3
# After how many new objects garbage is looked for among them, and how much rarer among those that are older.
GARBAGE = (20_000, 20, 50)
_DECIDED = "sortie.exit_code"

# The order of the help page; commands that do their work in one breath share a line.
FAMILIES = {
    ("demo",): "see it work; also: demo plan, demo peers",
    ("init",): "write a commented WORKFLOW.md to begin with",
    ("validate", "doctor"): "what is wrong with a workflow; what a run needs",
    ("run",): "work off the tracker; short: sortie WORKFLOW.md",
    ("status",): "what runs, waits and is parked now",
    ("history", "logs", "usage"): "what ran; what agents said; what it cost",
    ("why",): "why anything happened to an issue, or did not",
    ("start", "stop", "retry"): "start, end or hurry an issue",
    ("unpark", "answer"): "free a parked issue; answer its question",
    ("web", "token", "notify"): "the dashboard; who may use it; who is told",
    ("plan",): "run a graph of tasks; see sortie plan --help",
    ("turn", "peers"): "agents that take turns in one checkout",
    ("worklog", "mailbox", "charter"): "what such agents share",
    ("mcp-server",): "serve tools to an agent; its runtime starts this",
}
HOMES = {name: name for names in FAMILIES for name in names}
HOMES |= dict.fromkeys(("start", "stop", "retry", "unpark"), "operate")
HOMES["mcp-server"] = "main"


def decided(code: int) -> int:
    """The exit code of what was done, settled before it is told: it stands, whether anybody reads that or not."""
    click.get_current_context().meta[_DECIDED] = code
    return code


class ReaderLeft(Exception):
    """Nobody reads our output any more, as in `sortie history | head`."""

    def __init__(self, code: int) -> None:
        self.code = code


class LazyGroup(click.Group):
    """Imports a command when it is called; the help page imports none. Each command has its `homes`, the module in
    which it is, and a line of the help page, which it may share with others."""

    families: Mapping[tuple[str, ...], str] = FAMILIES
    homes: Mapping[str, str] = HOMES

    def invoke(self, ctx: click.Context) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
            return answer
        except BrokenPipeError as error:
            raise ReaderLeft(ctx.meta.get(_DECIDED, DONE)) from error  # click would end the process with code 1

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.homes:
            return None
        module = import_module(f"sortie.cli.{self.homes[cmd_name]}")
        # A service runs for long. Most of what it makes is gone when its last user is, so there is little to find.
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in self.homes:
            if not self.is_shorthand(word):
                raise click.UsageError(f"No such command '{word}'.{_did_you_mean(word, self.homes)}", ctx)
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def is_shorthand(self, word: str) -> bool:
        """Whether this is something to run, in the place of a command."""
        return word.endswith(".md") or os.sep in word or _holds_a_workflow(word)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(", ".join(names), sentence) for names, sentence in self.families.items()])


def _holds_a_workflow(word: str) -> bool:
    return os.path.isfile(os.path.join(word, "WORKFLOW.md"))  # noqa: PTH113, PTH118


def _did_you_mean(word: str, commands: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word.lower(), commands, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="sortie", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show where an error comes from.")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Turns work items into coding-agent runs and never loses track of them."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command("mcp-server", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mcp_server_command(arguments: tuple[str, ...]) -> int:
    """Serve the tools of one run on standard input and output. An agent's runtime starts this, not a person."""
    from ..tools.server import main

    return main(list(arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    _make_printing_safe()
    try:
        # Wherever it stands on the line, it means the same.
        answer = cli.main([word for word in given if word != "--debug"], prog_name="sortie", standalone_mode=False)
        return answer if isinstance(answer, int) else DONE
    except ReaderLeft as left:
        _write_nowhere()  # that is no error
        return left.code
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        return _explain(error)


def _make_printing_safe() -> None:
    """Whatever the caller did to our standard streams, printing a strange character or to nobody does not fail."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by the caller: the number must not go to the next file that is opened.
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _explain(error: BaseException) -> int:
    match error:
        case BaseExceptionGroup():
            return max(_explain(leaf) for leaf in _worth_telling(error))
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "sortie"
            return _tell(USAGE, f"{error.format_message()} See `{where} --help`.")
        case click.ClickException():
            return _tell(FAILED, error.format_message())
        case click.Abort() | KeyboardInterrupt():
            return _tell(FAILED, "Interrupted.")
        case ConfigurationError():
            return _tell(USAGE, *(error.problems or [str(error)]))
        case SortieError():
            return _tell(FAILED, str(error))
        case OSError(filename=str(path)):
            return _tell(FAILED, f"{path}: {error.strerror}.")
        case OSError():
            return _tell(FAILED, _where(error))
        case UnicodeEncodeError():
            return _tell(USAGE, "A name that was given is not UTF-8.")
        case _:
            what = f"{type(error).__name__}: {error}"
            return _tell(FAILED, f"Something unforeseen happened ({what}). Run it again with --debug to see where.")


def _where(error: OSError) -> str:
    """A failure that names no file: of the directory we stand in, or of a file that was open, as our output is."""
    if isinstance(error, FileNotFoundError):
        return "The directory in which this was started does not exist any more. Change to another one."
    _write_nowhere()  # if it is the output, what is left of it fails again
    return f"The output, or a file, cannot be written or read: {(error.strerror or str(error)).rstrip('.')}."


def _write_nowhere() -> None:
    """Python must not try to flush what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _worth_telling(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """What went wrong in concurrent tasks: the errors meant for people, else the first of the others."""
    leaves = list(_leaves(group))
    return [leaf for leaf in leaves if isinstance(leaf, SortieError)] or leaves[:1]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _tell(code: int, *sentences: str) -> int:
    from .format import clean, runnable

    for sentence in sentences:
        click.echo(f"sortie: {clean(runnable(sentence))}", err=True)
    return code
