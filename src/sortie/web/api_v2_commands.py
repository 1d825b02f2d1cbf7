"""The commands of `/api/v2`, which the service carries out, and their replies."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import anyio
from msgspec import Meta, Struct

from ..core.operator import problem_with_answer
from ..reports.words import stamp
from ..store.commands import add_commands, command_told
from .json_api import Problem
from .operation import MOST_NAME, MOST_NUMBER, Asked, NoParameters
from .site import Site

MOST_WAIT = 5.0
LOOK_EVERY = 0.05

# Of these, the last three are for tasks of a plan.
Verb = Literal["answer", "stop", "retry", "unpark", "start", "refresh", "reopen", "skip", "accept"]


class CommandQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`wait` is for how many seconds the answer may wait for the reply."""

    wait: Annotated[float, Meta(ge=0, le=MOST_WAIT)] = 0.0


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`issue` is an id or an identifier. `text` is what an `answer` says. `refresh` names no issue, and `retry`
    without one tries an agent again that could not run."""

    verb: Verb
    issue: Annotated[str, Meta(max_length=MOST_NAME)] = ""
    text: str = ""


class CommandState(Struct, frozen=True, kw_only=True):
    """`done` once the service replied: `outcome` is its sentence, and `ok` whether it did what was asked."""

    id: int
    verb: str
    issue: str
    asked_at: str
    done: bool
    ok: bool | None
    outcome: str


async def command(asked: Asked[CommandQuery, Command]) -> CommandState:
    site, wanted = asked.site, asked.body
    if problem := _mistake(wanted):
        raise Problem(422, "invalid_body", problem)
    if site.read_only:
        said = f"This server is read-only; `{site.start_command}` takes commands."
        raise Problem(403, "read_only", said)
    (number,) = await site.decisions.run(add_commands, site.database, wanted.verb, [wanted.issue], wanted.text)
    deadline = time.monotonic() + asked.query.wait
    while True:
        state = await site.decisions.run(_state, site, number)
        if state.done or time.monotonic() >= deadline:
            return state
        await anyio.sleep(LOOK_EVERY)


def command_state(asked: Asked[NoParameters, None]) -> CommandState:
    number = asked.named["id"]
    if not (number.isascii() and number.isdecimal()) or int(number) > MOST_NUMBER:
        raise _unknown(number)
    return _state(asked.site, int(number))


def _mistake(wanted: Command) -> str:
    """What is wrong with a command in itself, or an empty string."""
    if wanted.verb == "refresh" and wanted.issue:
        return "refresh polls for all issues; it takes no issue."
    if wanted.verb not in ("refresh", "retry") and not wanted.issue:
        return f"{wanted.verb} needs an issue."
    if wanted.verb == "answer":
        return problem_with_answer(wanted.text)
    return f"{wanted.verb} takes no text." if wanted.text else ""


def _state(site: Site, number: int) -> CommandState:
    with site.looking() as db:
        told = command_told(db, number)
    if told is None:
        raise _unknown(str(number))
    reply = told.reply
    return CommandState(
        id=number,
        verb=told.verb,
        issue=told.issue,
        asked_at=stamp(told.at),
        done=reply is not None,
        ok=reply.ok if reply else None,
        outcome=site.hide(reply.outcome) if reply else "",
    )


def _unknown(number: str) -> Problem:
    return Problem(404, "command_not_found", f"There is no command {number[:MOST_NAME]}.")
