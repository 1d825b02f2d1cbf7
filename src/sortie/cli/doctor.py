"""`sortie doctor`: everything a run needs, checked one by one, with the fix for what is missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from .exit_codes import DONE, FAILED
from .format import clean, runnable
from .printing import console, print_json
from .store_access import env_file_option, json_option, workflow_argument


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
    from .examination import examine_everything

    if probe:
        click.echo("asking the agent one question; this takes a turn ...", err=True)
    checks = examine_everything(workflow, env_file, probe=probe)
    counts = Counter(check.verdict for check in checks)
    if as_json:
        print_json({"ok": not counts["FAIL"], "checks": checks})
    else:
        terminal = console()
        colours = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}
        for check in checks:
            terminal.print(check.verdict, style=colours[check.verdict], end="  ")
            terminal.print(clean(runnable(f"{check.name}: {check.detail} {check.fix}".strip())), soft_wrap=True)
        click.echo(f"{counts['PASS']} passed, {counts['WARN']} warned, {counts['FAIL']} failed.")
    return FAILED if counts["FAIL"] else DONE
