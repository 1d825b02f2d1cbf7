"""Messages between the agents of a plan: sent and listed by tools, told at the beginning of a turn.

Who sends is known by the run that asks, not by what it says. What was told is remembered in `messages/.told`, so
that a conversation that goes on hears of each message once; a new conversation hears of all of them. One that was
cut short hears again of what it was told last, which may never have reached it.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec
from anyio import to_thread
from msgspec import Struct

from ..plans.plan import Plan
from ..plans.prompts import news_of
from ..protocol.message_inbox import Inbox, list_for
from ..protocol.safefiles import explain, open_directory, read_bounded, write_atomic
from ..protocol.task_messages import MessageRefused, send
from ..tools import envelope
from ..tools.definitions import MESSAGE_LIST, MESSAGE_SEND
from ..workflow.problems import did_you_mean

log = logging.getLogger(__name__)

_TOLD = ".told"
_TOLD_LIMIT = 1 << 20
_MOST_LOOKS = 100
_LONGEST_ANSWER = 1 << 20
_KEYS = {"to", "type", "content", "in_reply_to"}
_NAMED = 20


# What an agent remembers of what it was told before: a new one nothing, one that was cut short maybe not the last.
Memory = Literal["nothing", "not the last", "everything"]


class Told(Struct, frozen=True):
    """The last number of each sender that an agent was told, and those before it was told something last."""

    before: dict[str, int] = {}
    seen: dict[str, int] = {}


class PlanMessages:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    # -- tools ------------------------------------------------------------------------------------------------

    async def call(self, task: str, tool: str, arguments: object) -> dict[str, Any]:
        try:
            return await self._call(task, tool, arguments)
        except OSError as error:
            problem = f"The messages of this plan cannot be reached now: {error.strerror}."
            return envelope.failure(envelope.INTERNAL_ERROR, problem)

    async def _call(self, task: str, tool: str, arguments: object) -> dict[str, Any]:
        if tool == MESSAGE_SEND.name:
            return await to_thread.run_sync(self._send, task, arguments)
        if tool == MESSAGE_LIST.name:
            return envelope.success(await to_thread.run_sync(self._list, task))
        return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} cannot be used here.")

    def _send(self, task: str, arguments: object) -> dict[str, Any]:
        if problem := self._problem(arguments):
            return envelope.failure(envelope.INVALID_INPUT, problem)
        assert isinstance(arguments, dict)
        to, kind, content = arguments["to"], arguments["type"], arguments["content"]
        self._plan.messages.mkdir(parents=True, exist_ok=True)
        try:
            message = send(
                self._plan.messages,
                task,
                to,
                str(kind),
                content,
                now=time.time(),
                in_reply_to=str(arguments.get("in_reply_to") or ""),
            )
        except MessageRefused as refused:
            return envelope.failure(envelope.INVALID_INPUT, str(refused))
        return envelope.success({"file": f"{message.name}.json", "seq": message.seq})

    def _list(self, task: str) -> dict[str, Any]:
        """As many of the last ones as an answer holds, and how many there are before these."""
        kept, sizes, earlier = deque[dict[str, Any]](), deque[int](), 0
        seen: Mapping[str, int] = {}
        for _ in range(_MOST_LOOKS):
            inbox = self._inbox(task, seen)
            if not inbox.messages and not inbox.set_aside:
                break
            seen = inbox.seen
            for message in inbox.messages:
                kept.append(message.document)
                sizes.append(len(json.dumps(kept[-1])))
            while sum(sizes) > _LONGEST_ANSWER:
                kept.popleft()
                sizes.popleft()
                earlier += 1
        return {"messages": list(kept), **({"earlier": earlier} if earlier else {})}

    def _problem(self, arguments: object) -> str:
        if not isinstance(arguments, dict) or not _KEYS >= arguments.keys() >= _KEYS - {"in_reply_to"}:
            return "The arguments must be `to`, `type`, `content` and, for an answer, `in_reply_to`."
        to = arguments["to"]
        if not isinstance(to, str) or to not in self._plan.by_name:
            names = list(self._plan.by_name)
            known = did_you_mean(str(to), names) or f"; it has {', '.join(names[:_NAMED])}"
            return f"The plan has no task {str(to)[:64]!a}{known}"
        if not isinstance(arguments["content"], dict):
            return "`content` must be an object."
        return ""

    # -- what a turn begins with ------------------------------------------------------------------------------

    async def news(self, task: str, memory: Memory) -> str:
        """What has come for a task whose agent remembers so much."""
        if not self._plan.messages.is_dir():
            return ""
        try:
            return await to_thread.run_sync(self._news, task, memory)
        except OSError as error:
            log.warning("%s begins its turn without messages: %s", task, explain(error))
            return ""

    def _news(self, task: str, memory: Memory) -> str:
        told = self._told(task)
        after = {"nothing": {}, "not the last": told.before, "everything": told.seen}[memory]
        inbox = self._inbox(task, after)
        now = Told(before=after, seen=dict(inbox.seen))
        if now != told:
            self._remember(task, now)
        return news_of(inbox)

    def _inbox(self, task: str, after: Mapping[str, int]) -> Inbox:
        try:
            return list_for(self._plan.messages, task, after, now=time.time())
        except FileNotFoundError:
            return Inbox()

    def _told(self, task: str) -> Told:
        try:
            with open_directory(self._plan.messages, _TOLD) as told:
                return msgspec.json.decode(read_bounded(told, f"{task}.json", _TOLD_LIMIT), type=Told)
        except (OSError, ValueError, RecursionError):
            return Told()

    def _remember(self, task: str, now: Told) -> None:
        """As far as the disk allows: whoever is told twice is told the same."""
        with suppress(OSError), open_directory(self._plan.messages) as messages:
            with suppress(FileExistsError):
                os.mkdir(_TOLD, 0o700, dir_fd=messages)
            with open_directory(messages, _TOLD) as told:
                write_atomic(told, f"{task}.json", msgspec.json.encode(now))
