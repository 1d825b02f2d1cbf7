"""Messages between the agents of a plan: sent and listed by tools, told at the beginning of a turn.

Who sends is known by the run that asks, not by what it says. What was told is remembered in `messages/.told`, so that
a conversation that goes on hears of each message once; a new conversation hears of all of them.
"""

from __future__ import annotations

import json
import os
from typing import Any

from anyio import to_thread

from ..plans.plan import Plan
from ..plans.prompts import news_of
from ..protocol.safefiles import open_directory, read_bounded, write_atomic
from ..protocol.task_messages import CONTENT_LIMIT, Inbox, list_for, send
from ..tools import envelope
from ..tools.definitions import MESSAGE_LIST, MESSAGE_SEND, MESSAGE_TYPES
from ..workflow.problems import did_you_mean

_TOLD = ".told"
_TOLD_LIMIT = 1 << 20


class PlanMessages:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    # -- tools ------------------------------------------------------------------------------------------------

    async def call(self, task: str, tool: str, arguments: object) -> dict[str, Any]:
        if tool == MESSAGE_SEND.name:
            return await to_thread.run_sync(self._send, task, arguments)
        if tool == MESSAGE_LIST.name:
            inbox = await to_thread.run_sync(self._inbox, task, {})
            return envelope.success({"messages": [message.document() for message in inbox.messages]})
        return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} cannot be used here.")

    def _send(self, task: str, arguments: object) -> dict[str, Any]:
        if problem := self._problem(task, arguments):
            return envelope.failure(envelope.INVALID_INPUT, problem)
        assert isinstance(arguments, dict)
        message = send(
            self._plan.messages,
            task,
            arguments["to"],
            arguments["type"],
            arguments["content"],
            in_reply_to=arguments.get("in_reply_to"),
        )
        return envelope.success({"file": message.file, "seq": message.seq})

    def _problem(self, task: str, arguments: object) -> str:
        known = {"to", "type", "content", "in_reply_to"}
        if not isinstance(arguments, dict) or not known >= arguments.keys() >= known - {"in_reply_to"}:
            return "The arguments must be `to`, `type`, `content` and, for an answer, `in_reply_to`."
        to, content = arguments["to"], arguments["content"]
        if not isinstance(to, str) or to not in self._plan.by_name:
            names = list(self._plan.by_name)
            return f"The plan has no task {str(to)[:64]!r}{did_you_mean(str(to), names) or f'; it has {', '.join(names[:20])}'}"
        if to == task:
            return "A message to oneself reaches nobody."
        if arguments["type"] not in MESSAGE_TYPES:
            return f"`type` must be one of {', '.join(MESSAGE_TYPES)}."
        if not isinstance(content, dict) or len(json.dumps(content)) > CONTENT_LIMIT:
            return f"`content` must be an object of at most {CONTENT_LIMIT // 1024} KiB."
        if not isinstance(arguments.get("in_reply_to", ""), str):
            return "`in_reply_to` must be the file name of a message."
        return ""

    # -- what a turn begins with ------------------------------------------------------------------------------

    async def news(self, task: str, *, goes_on: bool) -> str:
        """What has come for a task. `goes_on`: its agent knows what it was told before."""
        if not self._plan.messages.is_dir():
            return ""
        return await to_thread.run_sync(self._news, task, goes_on)

    def _news(self, task: str, goes_on: bool) -> str:
        after = self._told(task) if goes_on else {}
        inbox = self._inbox(task, after)
        for message in inbox.messages:
            after[message.sender] = max(after.get(message.sender, 0), message.seq)
        if inbox.messages:
            self._remember(task, after)
        return news_of(inbox.messages)

    def _inbox(self, task: str, after: dict[str, int]) -> Inbox:
        return list_for(self._plan.messages, task, after)

    def _told(self, task: str) -> dict[str, int]:
        try:
            with open_directory(self._plan.messages, _TOLD) as told:
                found = json.loads(read_bounded(told, f"{task}.json", _TOLD_LIMIT))
        except (OSError, ValueError):
            return {}
        return {name: seq for name, seq in found.items() if isinstance(seq, int)} if isinstance(found, dict) else {}

    def _remember(self, task: str, after: dict[str, int]) -> None:
        """As far as the disk allows: whoever is told twice is told the same."""
        try:
            with open_directory(self._plan.messages) as messages:
                try:
                    os.mkdir(_TOLD, 0o700, dir_fd=messages)
                except FileExistsError:
                    pass
                with open_directory(messages, _TOLD) as told:
                    write_atomic(told, f"{task}.json", json.dumps(after).encode())
        except OSError:
            return
