"""`sortie charter check`: every mistake with its line, and the validation of each contract, run within bounds."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct

from ..errors import ConfigurationError, HookError, SortieError
from .format import clean, count, runnable
from .main import DONE, UNFINISHED, decided
from .peers_options import place_of, root_option
from .printing import json_option, print_json, styled

if TYPE_CHECKING:
    from ..peers.charter.charter import Charter, Contract
    from ..peers.charter.charter_file import Standing
    from ..peers.charter.check import Examination
    from ..peers.charter.markdown import Remark
    from ..peers.place import Place
    from ..workflow.problems import Problem

TIMEOUT = 120.0
_SHOWN_LINES = 20
# What a validation starts is no person: it cannot decide anything in the maintainer's name.
_RUN = "charter-check"
_COLOURS = {"error": "red", "warning": "yellow"}

Verdict = Literal["passed", "failed", "not run", "not started"]


class Checked(Struct, frozen=True, kw_only=True):
    """What became of the validation of one contract; `said` is a sentence, `output` the end of what it printed."""

    contract: Contract
    verdict: Verdict
    said: str = ""
    output: str = ""


@click.command("check")
@root_option
@click.option(
    "--run/--no-run",
    "run",
    default=None,
    help="Whether validation commands are run; if left out, unless the file was changed without a decision.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=TIMEOUT,
    metavar="SECONDS",
    help=f"How long one validation command may take; default: {TIMEOUT:g}.",
)
@json_option
def check_command(root: Path | None, run: bool | None, timeout: float, as_json: bool) -> int:
    """Show every mistake of CHARTER.md with its line.

    Besides what cannot be read: files with two owners, owners who do not take part, contracts that are missing or
    do not hold, criteria that are missing, a text that the maintainer did not decide on.

    Exit code 0 where all is well, 3 where something is wrong, 2 where it cannot be read.
    """
    place = place_of(root)
    text, standing = _read(place)
    charter, examination = examined(place, text)
    problems = [*problems_of(place, examination), *_about_standing(place, standing)]
    results = list(_validate(charter, place, standing, run=run, timeout=timeout))
    problems += _about_contracts(place, results)
    errors = [problem for problem in problems if problem.severity == "error"]
    code = decided(UNFINISHED if errors else DONE)
    if as_json:
        print_json(_report(standing, charter, examination, problems, results))
        return code
    _tell(problems)
    _tell_contracts(results)
    if charter.unowned == "maintainer" and examination.unowned:
        owner = charter.roster.maintainer
        click.echo(clean(f"{count(examination.unowned, 'file')} in no lane: only {owner} changes them."))
    warnings = count(len(problems) - len(errors), "warning")
    verdict = f"{count(len(errors), 'error')}, {warnings}" if errors else f"no error, {warnings}"
    click.echo(clean(f"{place.charter.name}, {_version(standing)}: {verdict}."))
    return code


def examined(place: Place, text: bytes) -> tuple[Charter, Examination]:
    """What this text says, checked against the files of the repository."""
    from ..peers.charter.charter import parse_charter
    from ..peers.charter.check import examine_charter, files_of

    charter = parse_charter(text)
    return charter, examine_charter(charter, place.root, files_of(place.root))


def problems_of(place: Place, examination: Examination) -> list[Problem]:
    return [_problem(place, remark) for remark in examination.remarks]


def tell_problems(problems: Sequence[Problem]) -> None:
    """For commands that refuse because of them."""
    _tell([problem for problem in problems if problem.severity == "error"], err=True)


def _read(place: Place) -> tuple[bytes, Standing]:
    """Raises what ends a command with 2."""
    from ..peers.charter.charter_file import CharterFile

    file = CharterFile(place)
    try:
        standing = file.standing()
        if standing.state == "missing":
            raise SortieError(f"{place.charter} does not exist.", fix=standing.problem)
        text = file.read()
    except SortieError as error:
        raise ConfigurationError(str(error)) from error
    if standing.unsettled:
        with suppress(SortieError):  # whoever comes next can do it as well
            file.settle(time.time())
    return text, standing


# -- problems ---------------------------------------------------------------------------------------------------


def _problem(place: Place, remark: Remark) -> Problem:
    from ..workflow.problems import Problem

    name = place.charter.name
    return Problem(file=name, line=remark.line, key="", message=remark.message, severity=remark.severity)


def _about_standing(place: Place, standing: Standing) -> Iterator[Problem]:
    from ..peers.charter.markdown import Remark

    if standing.problem:
        severity: Literal["error", "warning"] = "warning" if standing.state == "draft" else "error"
        yield _problem(place, Remark(line=0, message=standing.problem.rstrip("."), severity=severity))


def _about_contracts(place: Place, results: Sequence[Checked]) -> Iterator[Problem]:
    from ..peers.charter.markdown import Remark

    for result in results:
        if result.verdict == "failed":
            contract = result.contract
            message = f"the contract “{contract.name[:60]}” does not hold: `{contract.command}`: {result.said}"
            yield _problem(place, Remark(line=contract.line, message=message))


def _tell(problems: Sequence[Problem], *, err: bool = False) -> None:
    for problem in problems:
        said = clean(runnable(str(problem)))
        click.echo(f"{styled(problem.severity, _COLOURS[problem.severity])}: {said}", err=err)


# -- contracts --------------------------------------------------------------------------------------------------


def _validate(
    charter: Charter, place: Place, standing: Standing, *, run: bool | None, timeout: float
) -> Iterator[Checked]:
    """Each command once, however many contracts it is for. A text that nobody decided on runs nothing by itself:
    whoever changed it may have changed the commands."""
    wanted = standing.state != "changed" if run is None else run
    reason = "--no-run" if run is False else "it was changed without a decision; --run runs it all the same"
    known: dict[str, tuple[Verdict, str, str]] = {}
    for contract in charter.contracts:
        if not contract.is_begun:
            yield Checked(contract=contract, verdict="not started")
        elif not contract.command:
            yield Checked(contract=contract, verdict="not run", said="it has no validation command")
        elif not wanted:
            yield Checked(contract=contract, verdict="not run", said=reason)
        else:
            if contract.command not in known:
                known[contract.command] = _run(contract.command, place.root, timeout)
            verdict, said, output = known[contract.command]
            yield Checked(contract=contract, verdict=verdict, said=said, output=output)


def _run(command: str, root: Path, timeout: float) -> tuple[Verdict, str, str]:
    import anyio

    from ..process.identity import RUN_MARK
    from ..runs.environment import passed_on
    from ..workspace.hooks import run_hook

    run_id = os.environ.get(RUN_MARK, _RUN)

    async def run() -> None:
        directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            await run_hook(
                "command",
                f"exec sh -c {shlex.quote(command)}",  # as whoever tries it in a shell: a hook ends at a failure
                workspace=root,
                workspace_fd=directory,
                env={**passed_on(os.environ, ()), RUN_MARK: run_id},
                run_id=run_id,
                timeout=timeout,
                on_line=lambda _: None,
            )
        finally:
            os.close(directory)

    try:
        anyio.run(run)
    except HookError as error:
        said = error.message.removeprefix("Hook command ").removeprefix("failed: ")
        return "failed", said.rstrip("."), error.output
    return "passed", "", ""


def _tell_contracts(results: Sequence[Checked]) -> None:
    for result in results:
        reason = f": {result.said}" if result.said else ""
        colour = {"passed": "green", "failed": "red"}.get(result.verdict, "dim")
        click.echo(f"contract {clean(result.contract.name)} {styled(result.verdict, colour)}{clean(reason)}")
        for line in result.output.splitlines()[-_SHOWN_LINES:]:
            click.echo(f"  {clean(line)}")


def _version(standing: Standing) -> str:
    if standing.state == "draft":
        return "a draft"
    return f"version {standing.version}" + (", changed since" if standing.state == "changed" else "")


def _report(
    standing: Standing, charter: Charter, examination: Examination, problems: list[Problem], results: list[Checked]
) -> dict[str, object]:
    def plain(severity: str) -> list[dict[str, str | int]]:
        return [
            {"file": problem.file, "line": problem.line, "message": problem.message}
            for problem in problems
            if problem.severity == severity
        ]

    return {
        "valid": not plain("error"),
        "state": standing.state,
        "version": standing.version,
        "session_id": charter.session_id,
        "errors": plain("error"),
        "warnings": plain("warning"),
        "contracts": [
            {
                "name": each.contract.name,
                "line": each.contract.line,
                "locations": each.contract.locations,
                "owner": each.contract.owner,
                "command": each.contract.command,
                "status": each.contract.status,
                "checked": each.verdict,
                "said": each.said,
                "output": each.output,
            }
            for each in results
        ],
        "files": examination.files,
        "unowned": examination.unowned,
    }
