"""One client's MCP session: every frame it sends gets the answer it is owed, whatever is in it."""

from __future__ import annotations

from _thread import allocate_lock

from . import mcp_versions, rpc
from .mcp_versions import WITH_BATCHES
from .rpc import ErrorResponse, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .calls import CallsInFlight
    from .rpc import Message
    from .toolbox import SessionTool

    # Takes the answer to one frame, exactly once; None where there is none to give.
    Reply = Callable[[Message | None], None]


class McpSession:
    """`environ` says where calls are recorded, and what no answer may contain."""

    def __init__(
        self, tools: Mapping[str, SessionTool], send: Callable[[object], None], environ: Mapping[str, str]
    ) -> None:
        self._tools = tools
        self._send = send
        self._environ = environ
        self._calls: CallsInFlight | None = None
        self._agreed = mcp_versions.HANDSHAKE[-1]

    def wait(self, seconds: float) -> bool:
        """Whether every call is answered, after waiting for it as long as that."""
        return self._calls is None or self._calls.wait(seconds)

    def take(self, line: bytes | None) -> None:
        """Deal with one line; None is one that was too long to read."""
        try:
            if line is None:
                raise rpc.invalid_request("the line is longer than 10 MiB")
            if not line.strip():
                return
            frame = rpc.parse(line)
            if isinstance(frame, list):
                self._take_batch(frame)
            else:
                self._take_frame(frame, self._reply)
        except ErrorResponse as error:
            self._send(rpc.failure(None, error))

    def _reply(self, answer: Message | None) -> None:
        if answer is not None:
            self._send(answer)

    def _take_batch(self, frames: list[Any]) -> None:
        if self._agreed != WITH_BATCHES:
            raise rpc.invalid_request(f"only version {WITH_BATCHES} has batches")
        if not frames:
            raise rpc.invalid_request("the batch is empty")
        batch = _BatchAnswers(len(frames), self._send)
        for frame in frames:
            self._take_frame(frame, batch.reply)

    def _take_frame(self, frame: Any, reply: Reply) -> None:
        try:
            request = rpc.read_request(frame)
            if request is None or request.id is None:
                self._notice(request)
                reply(None)
            elif request.method == "tools/call":
                self._start_call(request, reply)
            else:
                reply(rpc.success(request.id, self._result(request)))
        except ErrorResponse as error:
            reply(rpc.failure(rpc.id_of(frame), error))
        except Exception as error:
            problem = ErrorResponse(rpc.INTERNAL_ERROR, f"Internal error ({type(error).__name__}).")
            reply(rpc.failure(rpc.id_of(frame), problem))

    def _notice(self, notification: Request | None) -> None:
        if notification is not None and notification.method == "notifications/cancelled":
            cancelled = notification.params.get("requestId")
            if self._calls is not None and isinstance(cancelled, str | int | float):
                self._calls.cancel(cancelled)

    def _result(self, request: Request) -> Message:
        if request.method == "initialize":
            self._agreed = mcp_versions.agree_on(request.params)
            return mcp_versions.welcome(self._agreed)
        version = mcp_versions.version_of(request, self._agreed)
        match request.method:
            case "server/discover":
                result = mcp_versions.discovery()
            case "ping":
                result = {}
            case "tools/list":
                if request.params.get("cursor") is not None:
                    raise rpc.invalid_params("there is one page only, without a cursor")
                result = mcp_versions.tool_list((tool.definition for tool in self._tools.values()), version)
            case method:
                raise ErrorResponse(rpc.METHOD_NOT_FOUND, f"Method not found: {rpc.shown(method)}")
        return mcp_versions.finished(result, version)

    def _start_call(self, request: Request, reply: Reply) -> None:
        version = mcp_versions.version_of(request, self._agreed)
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise rpc.invalid_params("name must be a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise rpc.invalid_params("arguments must be an object")
        if self._calls is None:
            from .calls import CallsInFlight

            self._calls = CallsInFlight(self._environ)
        tool = self._tools.get(name)
        if tool is None:
            self._calls.count_unknown()
            raise ErrorResponse(rpc.INVALID_PARAMS, f"Unknown tool: {rpc.shown(name)}")
        assert request.id is not None
        self._calls.start(request.id, tool, arguments or {}, version, reply)


class _BatchAnswers:
    """Answers that go out together, in one array, when the last one is in."""

    def __init__(self, size: int, send: Callable[[object], None]) -> None:
        self._missing = size
        self._send = send
        self._answers: list[Message] = []
        self._lock = allocate_lock()

    def reply(self, answer: Message | None) -> None:
        with self._lock:
            self._missing -= 1
            if answer is not None:
                self._answers.append(answer)
            complete = not self._missing
        if complete and self._answers:
            self._send(self._answers)
