"""`sortie worklog init`, `append`, `claim`, `complete`, `handoff`: what agents record about their work."""

from __future__ import annotations

from pathlib import Path

import click

from .main import DONE
from .peers_options import as_option, known_name, root_option, text_from, writer
from .printing import json_option
from .worklog import place_with_log
from .worklog_writing import Command, create, note_option, record


def _work_options(command: Command) -> Command:
    """What the form of a handoff has, for work that is over."""
    for option in reversed(
        (
            click.option("--status", default="Ready for review", help="How it stands; default: Ready for review."),
            click.option("--file", "files", multiple=True, metavar="PATH", help="A changed file; repeat it."),
            click.option("--tests", default="", help="Which tests ran, and how they ended."),
            click.option("--risks", default="", help="Risks and assumptions."),
            click.option("--blocking", default="", help="What is in the way."),
            note_option,
        )
    ):
        command = option(command)
    return command


@click.command("init")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="Who takes part; default: as in the charter."
)
@root_option
@as_option
def init_command(agents: tuple[str, ...], root: Path | None, as_name: str) -> int:
    """Make a work log with a status line for each agent and an empty decision index."""
    path = create(root, agents, as_name)
    click.echo(f"wrote {path}")
    return DONE


@click.command("append")
@click.argument("title")
@click.argument("text", default="")
@root_option
@as_option
@json_option
def append_command(title: str, text: str, root: Path | None, as_name: str, as_json: bool) -> int:
    """Add an entry that is none of the others: a finding, an analysis. TEXT is `-` for standard input."""
    from ..peers.worklog.compose import Note

    place = place_with_log(root)
    return record(
        place, Note(title=title, text=text_from(text)), writer(place, as_name), root=root, as_json=as_json
    )


@click.command("claim")
@click.argument("task")
@note_option
@root_option
@as_option
@json_option
def claim_command(task: str, note: str, root: Path | None, as_name: str, as_json: bool) -> int:
    """Say that you begin a TASK: an entry, and your status line."""
    from ..peers.worklog.compose import Claim

    place = place_with_log(root)
    return record(place, Claim(task=task, note=text_from(note)), writer(place, as_name), root=root, as_json=as_json)


@click.command("complete")
@click.argument("task")
@_work_options
@root_option
@as_option
@json_option
def complete_command(
    task: str,
    status: str,
    files: tuple[str, ...],
    tests: str,
    risks: str,
    blocking: str,
    note: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Say that a TASK is over, with what others need to know of it. Your status line becomes idle."""
    from ..peers.worklog.compose import Completion

    place = place_with_log(root)
    what = Completion(
        task=task,
        status=status,
        changed_files=files,
        tests=text_from(tests),
        risks=text_from(risks),
        blocking=text_from(blocking),
        note=text_from(note),
    )
    return record(place, what, writer(place, as_name), root=root, as_json=as_json)


@click.command("handoff")
@click.argument("task")
@click.option("--to", "next_owner", required=True, metavar="NAME", help="Who goes on with it.")
@click.option("--quick", is_flag=True, help="One line, for work of less than half an hour; TASK is what changed.")
@click.option("--next", "next_task", default="", metavar="TASK", help="With --quick: what is to be done next.")
@_work_options
@root_option
@as_option
@json_option
def handoff_command(
    task: str,
    next_owner: str,
    quick: bool,
    next_task: str,
    status: str,
    files: tuple[str, ...],
    tests: str,
    risks: str,
    blocking: str,
    note: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Pass a TASK on to somebody else, with what they need to know. Your status line becomes idle."""
    from ..peers.roster import roster_of
    from ..peers.worklog.compose import Handoff, QuickHandoff

    place = place_with_log(root)
    to = known_name(next_owner, roster_of(place), "--to")
    if quick:
        if files or risks or blocking or note:
            raise click.UsageError("A quick handoff has one line: --quick goes with --tests and --next alone.")
        one_line = QuickHandoff(what=task, next_owner=to, next_task=next_task, tests=text_from(tests))
        return record(place, one_line, writer(place, as_name), root=root, as_json=as_json)
    if next_task:
        raise click.UsageError("--next is for --quick; say it in --note.")
    what = Handoff(
        task=task,
        next_owner=to,
        status=status,
        changed_files=files,
        tests=text_from(tests),
        risks=text_from(risks),
        blocking=text_from(blocking),
        note=text_from(note),
    )
    return record(place, what, writer(place, as_name), root=root, as_json=as_json)
