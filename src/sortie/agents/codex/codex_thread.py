"""One thread of `codex app-server`: what is said to it, from the handshake to the end of a turn.

A turn begins only when our tools are ready for the thread. Whatever Codex asks meanwhile is declined, for nobody is
there to allow it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from ... import __version__
from ...errors import AgentError
from ...protocol.session_files import SERVER
from ..agent import AgentEvent, ErrorReported, ModelNamed, SessionOrder
from ..jsonrpc import Message, ResponseError
from ..mcp_servers import McpServer, read_servers
from ..options import Text
from ..per_session import PerSessionAgent, RpcSession
from .codex_stream import CodexReader, classify_codex_error

if TYPE_CHECKING:
    from ...process.child import Child

_REFUSED_CONFIGURATION = re.compile(r"unknown variant|invalid |unexpected |not found|toml|config")
_FAILED = ("failed", "cancelled")
_UNKNOWN_METHOD = -32601
_REFUSED_REQUEST = (-32600, -32602)

DECLINED: dict[str, dict[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
}


class SandboxPolicy(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The vendor's `SandboxPolicy`; roots that are not absolute are below the workspace."""

    type: Literal["dangerFullAccess", "readOnly", "workspaceWrite", "externalSandbox"]
    writable_roots: tuple[str, ...] | None = None
    network_access: bool | Literal["restricted", "enabled"] | None = None
    exclude_tmpdir_env_var: bool | None = None
    exclude_slash_tmp: bool | None = None


class CodexOptions(Struct, frozen=True, kw_only=True):
    """Without a sandbox and approvals nothing is asked and everything is allowed: nobody is there to answer.

    `config` overrides config.toml, key by key.
    """

    model: Text | None = None
    effort: Text | None = None
    approval_policy: Literal["never", "on-request", "untrusted"] = "never"
    thread_sandbox: Literal["danger-full-access", "workspace-write", "read-only"] = "danger-full-access"
    turn_sandbox_policy: SandboxPolicy | None = None
    personality: Literal["none", "friendly", "pragmatic"] | None = None
    config: dict[Text, Any] = {}


class _Account(Struct, frozen=True, rename="camel"):
    account: Any = None
    requires_openai_auth: bool = True


class _Named(Struct, frozen=True):
    id: str


class _ThreadAnswer(Struct, frozen=True):
    thread: _Named
    model: Any = None


class _TurnAnswer(Struct, frozen=True):
    turn: _Named


class CodexThread(RpcSession):
    """`limit_timeout`: Codex waits as long as the provider tells it to, five times over, and says not how long."""

    versioned = False
    limit_timeout: ClassVar[float] = 60.0

    def __init__(
        self, agent: PerSessionAgent[Any], order: SessionOrder, child: Child, report: Callable[[AgentEvent], None]
    ) -> None:
        super().__init__(agent, order, child, report)
        self._options: CodexOptions = agent.options
        self._reader = CodexReader()
        self._servers: dict[str, dict[str, Any]] = {}

    async def introduce(self) -> None:
        servers = read_servers(self.order)
        self._servers = {name: _in_codex(server, self.read_timeout) for name, server in servers.items()}
        client = {"name": "sortie", "title": "Sortie", "version": __version__}
        await self.peer.request("initialize", {"clientInfo": client}, self.read_timeout)
        await self.peer.notify("initialized")
        account = await self.ask("account/read", {"refreshToken": False}, _Account)
        if account.requires_openai_auth and account.account is None:
            await self._log_in()

    async def start_conversation(self) -> str:
        answer = await self.ask("thread/start", self._thread(), _ThreadAnswer)
        await self._enter(answer)
        return self._reader.session_id

    async def resume(self, session_id: str) -> None:
        params = {"threadId": session_id, "excludeTurns": True, **self._thread()}
        answer = await self.ask("thread/resume", params, _ThreadAnswer)
        if answer.thread.id != session_id:
            raise AgentError(AgentError.SESSION, "Codex resumed another thread than the one it was asked for.")
        await self._enter(answer)

    async def run_turn(self, prompt: str) -> None:
        reader = self._reader = self._reader.following()
        reader.turn_id = (await self.ask("turn/start", self._turn(prompt), _TurnAnswer)).turn.id
        while not reader.decided:
            await self.peer.read_until(lambda: reader.decided or reader.limited, None)
            await self._wait_for_limit(reader)
        if reader.failure:
            raise reader.failure

    async def cancel(self) -> None:
        reader = self._reader
        if reader.turn_id and not reader.finished:
            turn = {"threadId": reader.session_id, "turnId": reader.turn_id}
            await self.peer.request("turn/interrupt", turn, self.read_timeout)
            await self.peer.read_until(lambda: reader.finished, self.read_timeout)

    def on_notification(self, message: Message) -> None:
        for event in self._reader.read_message(message):
            self.report(event)

    def on_request(self, message: Message) -> Any:
        answer = DECLINED.get(message.method)
        self.report(ErrorReported(f"Codex asks ({message.method}), and nobody is there to answer."))
        if answer is None:
            raise ResponseError(_UNKNOWN_METHOD, f"Sortie does not answer {message.method}.")
        if message.method == "item/permissions/requestApproval":
            self._reader.denied.add("more permissions")  # unlike the others it leaves no trace in the thread
        return answer

    def failure(self, error: ResponseError) -> AgentError:
        if error.code in _REFUSED_REQUEST:
            return AgentError(AgentError.CONFIG, f"Codex does not take what it is asked: {error.message[:600]}")
        return classify_codex_error(error.message, None)

    def explain_exit(self, said: str) -> AgentError | None:
        """Before there is a thread it can be its configuration that it does not take."""
        if self._reader.session_id:
            return None
        lines = said.splitlines()
        for number, line in enumerate(lines):
            _, error, complaint = line.lower().partition("error: ")
            if error and _REFUSED_CONFIGURATION.search(complaint):
                detail = f"Codex refuses its configuration: {' '.join(lines[number:])[:600]}"
                return AgentError(AgentError.CONFIG, detail, fix="Correct the codex block, or config.toml.")
        return None

    async def _log_in(self) -> None:
        fix = "Run `codex login`, or set CODEX_API_KEY."
        key = key_of(self.order.environment)
        if not key:
            raise AgentError(AgentError.AUTH, "Codex is not logged in, and there is no key.", fix=fix)
        try:
            await self.peer.request("account/login/start", {"type": "apiKey", "apiKey": key}, self.read_timeout)
        except ResponseError as error:
            raise AgentError(AgentError.AUTH, f"Codex does not take the key: {error.message}", fix=fix) from error

    async def _enter(self, answer: _ThreadAnswer) -> None:
        """Make the thread ours, and wait for its MCP servers: a turn that begins earlier goes without them."""
        self._reader.session_id = answer.thread.id
        if isinstance(answer.model, str):
            self.report(ModelNamed(answer.model))
        try:
            await self.peer.read_until(self._servers_settled, self.read_timeout)
        except TimeoutError:
            self.report(ErrorReported("Not all MCP servers were ready in time (agent.read_timeout_ms)."))
        status, reason = self._server_status(SERVER)
        if SERVER in self._servers and status != "ready":
            detail = f"The MCP server {SERVER} did not start for Codex: {reason or status}"
            raise AgentError(AgentError.TOOLS, detail)

    def _servers_settled(self) -> bool:
        """Without ours there will be no turn, so its failure is all there is to know."""
        if self._server_status(SERVER)[0] in _FAILED:
            return True
        return all(self._server_status(name)[0] in ("ready", *_FAILED) for name in self._servers)

    def _server_status(self, name: str) -> tuple[str, str]:
        return self._reader.servers.get((self._reader.session_id, name), ("not ready in time", ""))

    async def _wait_for_limit(self, reader: CodexReader) -> None:
        try:
            await self.peer.read_until(lambda: reader.decided or not reader.limited, self.limit_timeout)
        except TimeoutError as error:
            said = "The provider refuses requests because of a rate limit, and Codex goes on waiting."
            raise AgentError(AgentError.RATE_LIMITED, said, until=reader.limit_until) from error

    def _thread(self) -> dict[str, Any]:
        options = self._options
        return _without_none(
            cwd=str(self.order.workspace),
            approvalPolicy=options.approval_policy,
            sandbox=options.thread_sandbox,
            model=options.model,
            personality=options.personality,
            config={"mcp_servers": self._servers} if self._servers else None,
        )

    def _turn(self, prompt: str) -> dict[str, Any]:
        return _without_none(
            threadId=self._reader.session_id,
            input=[{"type": "text", "text": prompt}],
            effort=self._options.effort,
            sandboxPolicy=self._sandbox_policy(),
        )

    def _sandbox_policy(self) -> dict[str, Any] | None:
        policy = self._options.turn_sandbox_policy
        if policy is None:
            return None
        told: dict[str, Any] = msgspec.to_builtins(policy)
        if policy.writable_roots is not None:
            told["writableRoots"] = [str(self.order.workspace / root) for root in policy.writable_roots]
        return told


def codex_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("CODEX_HOME") or Path(environment.get("HOME", "/")) / ".codex")


def login_file(environment: Mapping[str, str]) -> Path:
    return codex_home(environment) / "auth.json"


def key_of(environment: Mapping[str, str]) -> str:
    """The key to log in with. OPENAI_API_KEY is there for many programs, so a login of Codex's own outweighs it."""
    if key := environment.get("CODEX_API_KEY"):
        return key
    return "" if login_file(environment).exists() else environment.get("OPENAI_API_KEY", "")


def _in_codex(server: McpServer, timeout: float) -> dict[str, Any]:
    """In the words of config.toml. Its tools need no approval: nobody is there to give one."""
    common = {"startup_timeout_sec": timeout, "default_tools_approval_mode": "approve"}
    if server.url:
        return {"url": server.url, "http_headers": server.headers, **common}
    return {"command": server.command, "args": server.args, "env": server.env, **common}


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
