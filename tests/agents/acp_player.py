"""Plays whole recordings of the Agent Client Protocol: takes the answers in them, as a session does."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from sortie.agents.acp.acp_agents import KNOWN, UNKNOWN
from sortie.agents.acp.acp_messages import Implementation
from sortie.agents.acp.acp_stream import AcpReader
from sortie.agents.agent import AgentEvent
from sortie.agents.jsonrpc import Message, ResponseError
from sortie.agents.turn_reader import decode


class AnyAnswer(Struct, frozen=True, rename="camel"):
    stop_reason: str = ""
    session_id: str = ""
    agent_info: Implementation | None = None


class AcpPlayer(AcpReader):
    """Who answers, in which session, and whether it ends the turn."""

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        message = decode(line, Message)
        if message.method or self.finished:
            yield from super().events(line)
        elif message.error is not None:
            yield from self.rejected(ResponseError.of(message.error))
        else:
            answer = decode(message.result, AnyAnswer)
            self.session_id = answer.session_id or self.session_id
            if answer.agent_info:
                self._agent = KNOWN.get(answer.agent_info.name, UNKNOWN)
            if answer.stop_reason:
                yield from self.answered(message.result)
