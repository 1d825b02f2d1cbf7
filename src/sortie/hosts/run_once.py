"""One run on any host from start to end, with nobody who decides anything: for trying out an agent, for scripts."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from msgspec import Struct

from ..core.conclude import Outcome
from ..core.model import Usage
from ..runs import messages as say
from ..runs.spec import RunSpec
from ..tools import envelope
from .host import Host

ToolHandler = Callable[[str, object], Awaitable[dict[str, Any]]]
# What is still to be done after the turn of this number, for the next prompt; nothing where the work is done.
Judge = Callable[[int], Awaitable[str]]


class Finished(Struct, frozen=True, kw_only=True):
    """How it ended; `last_line` is the last one that the agent itself said."""

    outcome: Outcome
    usage: Usage
    last_line: str
    tool_lines: tuple[bytes, ...]


async def no_tools(tool: str, arguments: object) -> dict[str, Any]:  # noqa: ARG001 - whatever they are
    return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} cannot be used here.")


async def run_once(
    host: Host,
    spec: RunSpec,
    *,
    on: str = "local",
    call_tool: ToolHandler = no_tools,
    judge: Judge | None = None,
) -> Finished:
    """Every turn is allowed, and the issue stays as it is; with a `judge`, turns follow until that is content, or
    as many as the specification has. Cancelled, it ends the run first."""
    await host.start(spec.run_id, secrets.token_hex(8), spec, on)
    try:
        return await _follow(host, spec.run_id, call_tool, judge)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await host.cancel(spec.run_id)
        raise


async def _follow(host: Host, run_id: str, call_tool: ToolHandler, judge: Judge | None) -> Finished:
    last_line, tool_lines, news = "", list[bytes](), ""
    async for numbered in host.events(run_id):
        match numbered.message:
            case say.Line(source="agent", text=text):
                last_line = text
            case say.ToolUsed(line=line):
                tool_lines.append(line)
            case say.ProcessSpawned():
                await host.answer(run_id, numbered.number, say.Recorded())
            case say.TurnAsked():
                await host.answer(run_id, numbered.number, say.Proceed(news=news))
            case say.TurnCompleted(turn=turn):
                news = await judge(turn) if judge else ""
                done = judge is not None and not news
                await host.answer(run_id, numbered.number, say.Stop() if done else say.Proceed())
            case say.ToolAsked(tool=tool, arguments=arguments):
                answer = await call_tool(tool, arguments)
                await host.answer(run_id, numbered.number, say.ToolAnswered(answer=answer))
            case say.Ended(outcome=outcome, usage=usage):
                end = Finished(outcome=outcome, usage=usage, last_line=last_line, tool_lines=tuple(tool_lines))
    return end
