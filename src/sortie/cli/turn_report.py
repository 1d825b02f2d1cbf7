"""What came of a turn, for the person who asked for it: in a few lines, or as JSON for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from .format import amount, clean, count, duration, runnable
from .peers_options import typed
from .printing import print_sentence

if TYPE_CHECKING:
    from ..peers.turns.conclude import TurnReport

_NAMED = 20
_COLOURS = {"succeeded": "green", "failed": "red", "blocked": "yellow"}


def print_report(report: TurnReport, root: Path | None = None) -> None:
    """`root` is the checkout as it was named on the command line."""
    turn, result = report.turn, report.result
    reason = f": {result.reason}" if result.reason else ""
    how = result.outcome if result.started else "did not begin"
    used = f", {amount(result.tokens)} tokens" if result.tokens else ""
    used += f", ${result.usd:.2f}" if result.usd else ""
    took = f" ({duration(result.seconds)}{used})" if result.started else ""
    print_sentence(
        f"Turn {turn.number} of {turn.agent} {how}{took}{reason}", _COLOURS.get(result.outcome, "yellow")
    )
    files = [file.path for file in report.changes.files]
    if files:
        named = ", ".join(files[:_NAMED]) + (f" and {len(files) - _NAMED} more" if len(files) > _NAMED else "")
        click.echo(clean(f"It changed {count(len(files), 'file')}: {named}."))
    for remark in report.remarks:
        click.echo(clean(remark))
    for finding in report.findings[:_NAMED]:
        print_sentence(f"- {finding.sentence}", "yellow")
    if len(report.findings) > _NAMED:
        click.echo(f"- and {len(report.findings) - _NAMED} more; the work log has them.")
    if report.reverted.ref:
        back = [*report.reverted.files, *report.reverted.documents]
        kept = f"all of it is kept as {report.reverted.ref}"
        click.echo(clean(f"Taken back: {', '.join(back[:_NAMED])}; {kept}."))
    for message in report.escalated:
        print_sentence(f"{message} was not answered in time and is in the work log now.", "yellow")
    for problem in report.problems:
        print_sentence(problem, "red")
    if report.needs_maintainer:
        advice = (
            f"{typed(f'turn --log {turn.number}', root)} has what it said, {typed('worklog show', root)} the rest"
        )
        click.echo(clean(runnable(f"This needs a look of yours: {advice}.")))


def report_json(report: TurnReport) -> dict[str, Any]:
    return {
        "turn": msgspec.to_builtins(report.turn),
        "outcome": report.result.outcome,
        "reason": report.result.reason,
        "started": report.result.started,
        "tokens": report.result.tokens,
        "usd": report.result.usd,
        "seconds": report.result.seconds,
        "needs_maintainer": report.needs_maintainer,
        "files": [{"path": file.path, "how": file.how} for file in report.changes.files],
        "commits": list(report.changes.commits),
        "findings": [msgspec.to_builtins(finding) for finding in report.findings],
        "violations": len(report.violations),
        "reverted": msgspec.to_builtins(report.reverted),
        "recorded": list(report.recorded),
        "escalated": list(report.escalated),
        "remarks": list(report.remarks),
        "problems": list(report.problems),
    }
