"""Messages between the agents of a plan: sent and listed by tools, told at the beginning of a turn.

Who sends is known by the run that asks, not by what it says. What was told is remembered in `messages/.told`, so
that a conversation that goes on hears of each message once; a new conversation hears of all of them.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from anyio import to_thread

from ..plans.plan import Plan
from ..plans.prompts import message_document, news_of
from ..protocol.message_inbox import Inbox, list_for
from ..protocol.safefiles import explain, open_directory, read_bounded, write_atomic
from ..protocol.task_messages import MessageRefused, send
from ..tools import envelope
from ..tools.definitions import MESSAGE_LIST, MESSAGE_SEND
from ..workflow.problems import did_you_mean

log = logging.getLogger(__name__)

_TOLD = ".told"
_TOLD_LIMIT = 1 << 20
_KEYS = {"to", "type", "content", "in_reply_to"}
_NAMED = 20


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
            inbox = await to_thread.run_sync(self._inbox, task, {})
            return envelope.success({"messages": [message_document(message) for message in inbox.messages]})
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

    async def news(self, task: str, *, goes_on: bool) -> str:
        """What has come for a task. `goes_on`: its agent knows what it was told before."""
        if not self._plan.messages.is_dir():
            return ""
        try:
            return await to_thread.run_sync(self._news, task, goes_on)
        except OSError as error:
            log.warning("%s begins its turn without messages: %s", task, explain(error))
            return ""

    def _news(self, task: str, goes_on: bool) -> str:
        inbox = self._inbox(task, self._told(task) if goes_on else {})
        if inbox.messages:
            self._remember(task, inbox.seen)
        return news_of(inbox)

    def _inbox(self, task: str, after: Mapping[str, int]) -> Inbox:
        try:
            return list_for(self._plan.messages, task, after, now=time.time())
        except FileNotFoundError:
            return Inbox()

    def _told(self, task: str) -> dict[str, int]:
        try:
            with open_directory(self._plan.messages, _TOLD) as told:
                found = json.loads(read_bounded(told, f"{task}.json", _TOLD_LIMIT))
        except (OSError, ValueError):
            return {}
        return {name: seq for name, seq in found.items() if isinstance(seq, int)} if isinstance(found, dict) else {}

    def _remember(self, task: str, seen: Mapping[str, int]) -> None:
        """As far as the disk allows: whoever is told twice is told the same."""
        with suppress(OSError), open_directory(self._plan.messages) as messages:
            with suppress(FileExistsError):
                os.mkdir(_TOLD, 0o700, dir_fd=messages)
            with open_directory(messages, _TOLD) as told:
                write_atomic(told, f"{task}.json", json.dumps(dict(seen)).encode())
