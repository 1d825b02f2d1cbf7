"""One session of the Agent Client Protocol, version 1, as its client: handshake, settings, prompts, permissions.

The agent reads and writes files and runs commands itself: we offer neither, and refuse what we did not offer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec
from msgspec import Struct

from ... import __version__
from ...errors import AgentError
from ..agent import AgentEvent, ErrorReported, ModelNamed, SessionOrder
from ..jsonrpc import Message, ResponseError
from ..mcp_servers import read_servers
from ..options import Text
from ..per_session import PerSessionAgent, RpcSession
from ..turn_reader import ALIVE, TurnExit, decode
from . import acp_messages as messages
from .acp_agents import KNOWN, UNKNOWN, KnownAgent, classify_response
from .acp_stream import AcpReader, RunningTotals

if TYPE_CHECKING:
    from ...process.child import Child

VERSION = 1

_NO_SUCH_METHOD = -32601
_WRONG_PARAMETERS = -32602
# A turn that cannot succeed any more is cancelled; this long the agent may take to say so.
_CANCEL_TIMEOUT = 3.0
_ROUND_TRIPS = 1_000


class AcpOptions(Struct, frozen=True, kw_only=True):
    """Without a mode, an agent that we know gets the one in which it does not ask.

    What it asks nevertheless is allowed, this once: nobody is there to answer.
    """

    permissions: Literal["allow", "deny"] = "allow"
    mode: Text | None = None
    model: Text | None = None
    config: Mapping[str, str | bool] = {}
    auth_method: Text | None = None


class AcpSession(RpcSession):
    def __init__(
        self, agent: PerSessionAgent[Any], order: SessionOrder, child: Child, report: Callable[[AgentEvent], None]
    ) -> None:
        super().__init__(agent, order, child, report)
        self.agent: KnownAgent = UNKNOWN
        self.agent_info = messages.Implementation()
        self._options: AcpOptions = agent.options
        self._command = agent.command
        self._capabilities = messages.Capabilities()
        self._session_id = ""
        self._model = ""
        self._running = RunningTotals()
        self._reader = AcpReader()
        self._turn: anyio.CancelScope | None = None
        self._updates = 0
        self._claimed = True

    async def introduce(self) -> None:
        introduction = await self.ask("initialize", _GREETING, messages.InitializeAnswer)
        if introduction.protocol_version != VERSION:
            raise AgentError(
                AgentError.CONFIG,
                f"The agent speaks version {introduction.protocol_version} of the Agent Client Protocol, "
                f"not {VERSION}.",
                fix="Install a version of it that speaks ours.",
            )
        self._capabilities = introduction.agent_capabilities or messages.Capabilities()
        self.agent_info = introduction.agent_info or messages.Implementation()
        self.agent = KNOWN.get(self.agent_info.name, UNKNOWN)
        if method := self._options.auth_method:
            offered = [one.id for one in introduction.auth_methods or []]
            login = "the login of acp.auth_method"
            await self._choose("authenticate", {"methodId": method}, login, offered, AgentError.AUTH)

    async def start_conversation(self) -> str:
        self._running = RunningTotals()
        opened = await self.ask("session/new", self._session_params(), messages.SessionAnswer)
        if not opened.session_id:
            raise AgentError(AgentError.TURN_FAILED, "The agent did not name the session that it opened.")
        await self._begin(opened.session_id, opened)
        return opened.session_id

    async def resume(self, session_id: str) -> None:
        if (self._capabilities.session_capabilities or {}).get("resume") is not None:
            method = "session/resume"
        elif self._capabilities.load_session:
            method = "session/load"
        else:
            raise AgentError(AgentError.SESSION, "the agent offers neither session/resume nor session/load")
        if self.agent.resumes_elsewhere:
            await self._require_workspace(session_id)
        self._running = RunningTotals(cost=self.order.resume_cost)
        opened = await self.ask(method, {"sessionId": session_id, **self._session_params()}, messages.SessionAnswer)
        if self.agent.replays_late:
            await self._skip_replay()
        await self._begin(session_id, opened)

    async def run_turn(self, prompt: str) -> None:
        if self._reader.failure:
            raise self._reader.failure
        reader = self._reader = AcpReader(self.agent, self._session_id, self._running)
        request = {"sessionId": self._session_id, "prompt": [{"type": "text", "text": prompt}]}
        try:
            with anyio.CancelScope() as self._turn:
                self._report(await self._answer(request, reader))
            cannot_succeed = self._turn.cancelled_caught
        finally:
            self._turn = None
            self._running = reader.running
            self._reader = AcpReader(self.agent, self._session_id)
        if cannot_succeed:
            with anyio.move_on_after(_CANCEL_TIMEOUT):
                await self.cancel()
        if error := reader.verdict(TurnExit()):
            raise error

    async def cancel(self) -> None:
        await self.peer.notify("session/cancel", {"sessionId": self._session_id})
        self._claimed = True
        await self.peer.read_until(self._answer_came, self.read_timeout)

    def on_notification(self, message: Message) -> None:
        self._updates += 1
        self._claimed = True
        self._report(self._reader.read_message(message))
        if self._turn is not None and self._reader.failure and not self._reader.finished:
            self._turn.cancel()

    def on_request(self, message: Message) -> Any:
        self._claimed = True
        if message.method != "session/request_permission":
            raise ResponseError(_NO_SUCH_METHOD, f"Method not found: {message.method}")
        try:
            request = decode(message.params, messages.PermissionRequest)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ResponseError(_WRONG_PARAMETERS, "Invalid params") from error
        allow = self._options.permissions == "allow"
        wanted = "allow_once" if allow else "reject_once"
        chosen = next((option.option_id for option in request.options if option.kind == wanted), None)
        self._report(self._reader.permission(request.tool_call, granted=allow and chosen is not None))
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def failure(self, error: ResponseError) -> AgentError:
        return classify_response(error)

    async def _answer(self, request: dict[str, Any], reader: AcpReader) -> list[AgentEvent]:
        try:
            return reader.answered(await self.peer.request("session/prompt", request, None))
        except ResponseError as error:
            return reader.rejected(error)

    def _session_params(self) -> dict[str, Any]:
        servers, left_out = servers_for(
            self.order, self._capabilities.mcp_capabilities or messages.McpCapabilities(), self.agent
        )
        if self.agent.mcp_argument and self.agent.mcp_argument in self._command:
            left_out = []
        for reason in left_out:
            self.report(ErrorReported(reason))
        meta = {"_meta": self.agent.session_meta} if self.agent.session_meta else {}
        return {"cwd": str(self.order.workspace), "mcpServers": servers, **meta}

    async def _require_workspace(self, session_id: str) -> None:
        here = await self.ask("session/list", {"cwd": str(self.order.workspace)}, messages.Sessions)
        if all(one.session_id != session_id for one in here.sessions):
            raise AgentError(AgentError.SESSION, "it does not belong to this workspace")

    async def _begin(self, session_id: str, opened: messages.SessionAnswer) -> None:
        self._session_id = session_id
        options, modes = self._options, opened.mode_names
        if mode := options.mode or self._automatic_mode(modes):
            full_name = next((one for one in modes if one == mode or one.endswith(f"#{mode}")), mode)
            await self._set("mode", full_name, modes, None if opened.modes is not None else opened.option("mode"))
        if options.model:
            await self._set("model", options.model, opened.model_names, opened.option("model"))
        self._name_model(options.model or opened.current_model)
        names = [option.id for option in opened.config_options or []]
        for name, value in options.config.items():
            await self._set("config", value, names, messages.ConfigOption(name))

    def _automatic_mode(self, offered: list[str]) -> str | None:
        if self._options.permissions == "deny":
            return None
        return next((mode for mode in self.agent.modes if mode in offered), None)

    async def _set(
        self, key: str, value: str | bool, offered: list[str], option: messages.ConfigOption | None
    ) -> None:
        """By an option of the agent's where it has one for this, else by the method that the protocol has."""
        params: dict[str, Any] = {"sessionId": self._session_id}
        if option is None:
            method, params[f"{key}Id"] = f"session/set_{key}", value
        else:
            method = "session/set_config_option"
            params |= {"configId": option.id, "value": value}
            if isinstance(value, bool):
                params["type"] = "boolean"
        await self._choose(method, params, f"acp.{key}", offered)

    async def _choose(
        self, method: str, params: dict[str, Any], what: str, offered: list[str], kind: str = AgentError.CONFIG
    ) -> None:
        """Ask for something that the operator chose; refused, it names what there is."""
        try:
            await self.peer.request(method, params, self.read_timeout)
        except ResponseError as error:
            said = f"The agent refuses {what} ({classify_response(error).message})."
            choice = f"It offers {', '.join(offered)}." if offered else "It offers no choice; leave the option out."
            raise AgentError(kind, said, fix=choice) from error

    async def _skip_replay(self) -> None:
        """Until a question comes back with nothing of the replay before its answer."""
        for _ in range(_ROUND_TRIPS):
            before = self._updates
            try:
                await self.peer.request("_sortie/still_there", {}, self.read_timeout)
            except ResponseError:
                pass  # that there is no such method is an answer too
            if self._updates == before:
                return

    def _answer_came(self) -> bool:
        """Looked at before the first message and after each: one that nobody has claimed is the prompt's answer."""
        came, self._claimed = not self._claimed, False
        return came

    def _report(self, events: list[AgentEvent]) -> None:
        # Between turns there is nothing to report: a history that is replayed was reported before.
        for event in events if self._turn is not None else [ALIVE]:
            self.report(event)
        if self._turn is not None:
            self._name_model(self._reader.model)

    def _name_model(self, model: str) -> None:
        if model not in ("", self._model):
            self._model = model
            self.report(ModelNamed(model))


_GREETING = {
    "protocolVersion": VERSION,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "sortie", "title": "Sortie", "version": __version__},
}


def servers_for(
    order: SessionOrder, capabilities: messages.McpCapabilities, agent: KnownAgent
) -> tuple[list[dict[str, Any]], list[str]]:
    """The servers that the agent takes, and a sentence for each that it does not."""
    servers: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name, server in read_servers(order).items():
        kind = server.type or ("http" if server.url else "stdio")
        if kind == "stdio" and agent.mcp_argument:
            left_out.append(
                f"The agent takes no MCP server like {name} from its client; add "
                f'`{agent.mcp_argument} @"$SORTIE_MCP_CONFIG"` to agent.command.'
            )
        elif kind == "stdio":
            servers.append(
                {"name": name, "command": server.command, "args": server.args, "env": _pairs(server.env)}
            )
        elif (kind == "http" and capabilities.http) or (kind == "sse" and capabilities.sse):
            servers.append({"type": kind, "name": name, "url": server.url, "headers": _pairs(server.headers)})
        else:
            left_out.append(f"The agent takes no {kind} servers; the MCP server {name} is left out.")
    return servers, left_out


def _pairs(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]
