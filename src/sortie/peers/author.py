"""Who a process writes as: decided by who runs it, never by what it says of itself.

Everything that we start carries the mark of its run in its environment and in a resource limit, and so does all
that it starts in turn. Both can be taken off; but what was started in a turn and lost its parents is a child of the
orchestrator of that turn, and the register knows that one. Other programs that run models mark their shells too.
Only where there is none of these is it a person who writes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ..errors import SortieError
from ..process.ancestry import MOST_ANCESTORS, Marks, marks_of_ancestry
from ..process.identity import is_of_run, start_ticks
from .place import Place
from .turn_register import Turn, TurnRegister

Role = Literal["agent", "maintainer", "orchestrator"]

# What these programs put into the environment of the commands that their models run.
_AGENT_MARKS = {
    "CLAUDECODE": "Claude Code",
    "CODEX_THREAD_ID": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "OpenCode",
    "COPILOT_CLI": "Copilot CLI",
}


class AuthorityError(SortieError):
    """Somebody wants to write what only another may write."""


class Author(Struct, frozen=True, kw_only=True):
    name: str
    role: Role
    run_id: str = ""


def author_of_process(place: Place, wanted: str = "", *, maintainer: str = "Maintainer") -> Author:
    """Who this process writes as. `wanted` is the name that it was asked to write under.

    In a turn that is its agent. In any other run, and in the shell of a coding agent, it is whoever is named, but
    never the maintainer. Anybody else is a person: the maintainer, unless another name is given.
    """
    wanted = wanted.strip()
    marks = list(marks_of_ancestry(os.getpid()))
    run_ids = [one.run_id for one in marks if one.run_id]
    is_run = any(one.is_of_a_run for one in marks)
    if (turn := _turn_of(marks, TurnRegister(place).turns())) is not None:
        return _agent_of(turn, wanted, maintainer)
    if len(marks) == MOST_ANCESTORS:
        raise AuthorityError("This command runs below so many others that nobody can tell whose it is.")
    program = "a run of Sortie" if is_run else _agent_program()
    run_id = run_ids[0] if run_ids else ""
    if not program:
        if not wanted or wanted.casefold() == maintainer.casefold():
            return Author(name=maintainer, role="maintainer")
        return Author(name=wanted, role="agent")
    if not wanted:
        raise AuthorityError(
            f"This command runs inside {program}, so it does not say who is writing.",
            fix="Say which agent it is with `--as NAME`.",
        )
    if wanted.casefold() == maintainer.casefold():
        raise AuthorityError(
            f"Only a person writes as {maintainer}, and this command runs inside {program}.",
            fix=f"{maintainer} runs it in a terminal of their own, outside of any agent.",
        )
    return Author(name=wanted, role="agent", run_id=run_id)


def refuse_in_a_run(doing: str, *, fix: str) -> None:
    """Raise where this is a command of an agent that we run, in whichever checkout; `fix` is what to do instead."""
    if any(one.is_of_a_run for one in marks_of_ancestry(os.getpid())):
        raise AuthorityError(
            f"Only a person {doing}, and this command runs inside a run of Sortie.",
            fix=fix,
        )


def _agent_of(turn: Turn, wanted: str, maintainer: str) -> Author:
    if wanted and wanted.casefold() != turn.agent.casefold():
        # Some commands are the maintainer's, whether a name was given or not.
        is_maintainer = wanted.casefold() == maintainer.casefold()
        theirs = f"Only {maintainer} can, with a command of their own, outside of any turn."
        raise AuthorityError(
            f"This is a turn of {turn.agent}, who cannot write as {wanted}.",
            fix=theirs if is_maintainer else "Leave out the name: the turn says who is writing.",
        )
    return Author(name=turn.agent, role="agent", run_id=turn.run_id)


def _turn_of(marks: Sequence[Marks], turns: Sequence[Turn]) -> Turn | None:
    """The turn that this process is part of.

    The outermost process that belongs to one decides, and of two marks of a process the limit: what a command is
    started with can be changed by whoever starts it.
    """
    by_run = {turn.run_id: turn for turn in turns if turn.run_id}
    owners = {turn.owner.pid: turn for turn in turns if turn.owner and turn.is_open}
    for one in reversed(marks[1:]):
        owned = owners.get(one.pid)
        if owned and owned.owner and owned.owner.start_ticks == start_ticks(one.pid):
            return owned
    for one in reversed(marks):
        for turn in reversed(turns):
            if turn.run_id and is_of_run(one.limit_marker, turn.run_id):
                return turn
        if one.run_id in by_run:
            return by_run[one.run_id]
    return None


def _agent_program() -> str:
    return next((name for mark, name in _AGENT_MARKS.items() if os.environ.get(mark)), "")
