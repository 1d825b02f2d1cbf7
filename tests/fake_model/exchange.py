"""One connection of a client: what it asks is noted before it is answered, and bad input ends no other one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from . import bodies, wire_anthropic, wire_chat, wire_gemini, wire_responses
from .memory import Decision, Memory, Request, fingerprint
from .script import place_of
from .steps import Break, Call, Fail, Hang, Say, ScriptError, Shell, Step, tool_call
from .wire import Asked, Json, Prompt, Reply, Usage, Wire

MODELS: Json = {
    "object": "list",
    "has_more": False,
    "data": [{"id": "fake-model", "object": "model", "type": "model", "display_name": "fake-model"}],
    "models": [],
}
WRONG_KEY = "this is not the key"
UNAUTHORISED = Decision("unauthorised", Step("http", Fail(401, WRONG_KEY, {}, None)))


@dataclass(frozen=True)
class Route:
    """Where paths with this ending lead: to the script, or to an answer that is always the same."""

    ending: str
    wire: Wire
    always: Json | None = None


ROUTES = (
    Route("/messages", wire_anthropic),
    Route("/messages/count_tokens", wire_anthropic, {"input_tokens": 1000}),
    Route("/responses", wire_responses),
    Route("/chat/completions", wire_chat),
    Route(":generateContent", wire_gemini),
    Route(":streamGenerateContent", wire_gemini),
    Route(":countTokens", wire_gemini, {"totalTokens": 1000}),
)


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def __init__(self, memory: Memory, *arguments: Any) -> None:
        self._memory = memory
        super().__init__(*arguments)

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are noted in the memory, not on standard error."""

    def do_HEAD(self) -> None:
        self._note("head")
        self._send(200, {})

    def do_GET(self) -> None:
        if self.headers.get("Upgrade"):
            # Some clients try a websocket first, and fall back at once only for this answer.
            self._note("bad")
            self._send(426, wire_chat.failure(426, "there are no websockets here"))
        elif not self._path().endswith("/models"):
            self._note("bad")
            self._send(404, wire_chat.failure(404, "there is nothing here"))
        elif not self._authorised():
            self._note("unauthorised")
            self._send(401, wire_chat.failure(401, WRONG_KEY))
        else:
            self._note("models")
            self._send(200, MODELS)

    def do_POST(self) -> None:
        route = next((route for route in ROUTES if self._path().endswith(route.ending)), None)
        wire = route.wire if route else wire_chat
        try:
            raw = bodies.read(self.headers, self.rfile)
            if route is None:
                raise bodies.BadBody(404, "there is no such endpoint here")
            body = bodies.parsed(raw)
            if route.always is not None and self._authorised():
                self._note("count", wire=wire.NAME)
                self._send(200, route.always)
            else:
                self._answer(wire, body)
        except bodies.BadBody as error:
            # What is left of such a body would be taken for the next request.
            self.close_connection = True
            self._note("bad", wire=wire.NAME)
            self._send(error.status, wire.failure(error.status, str(error)))

    def _answer(self, wire: Wire, body: Json) -> None:
        try:
            asked = wire.asked(self._path(), body)
            place = place_of(asked.heard)
            decision = self._memory.decide(asked, place, wire.NAME) if self._authorised() else UNAUTHORISED
        except (ScriptError, RecursionError) as error:
            raise bodies.BadBody(400, str(error)) from None
        self._note(
            decision.did,
            wire=wire.NAME,
            model=asked.model,
            stream=asked.stream,
            tools=len(asked.tools),
            step=decision.index,
            prompts=place.prompts,
            last_result=place.last_result,
            told="\n".join(heard.text for heard in asked.heard if isinstance(heard, Prompt)),
        )
        self._act(wire, asked, decision, place.last_result or "")

    def _act(self, wire: Wire, asked: Asked, decision: Decision, last_result: str) -> None:
        step = decision.step
        if not self._still_here_after(step.sleep):
            return
        usage = step.usage or Usage(1000 + 100 * max(decision.index, 0), 50)
        blank = Reply(secrets.token_hex(8), asked.model, usage)
        match step.deed:
            case Say(text, refused):
                self._reply(wire, asked, replace(blank, text=text, refused=refused))
            case Shell() | Call() as deed:
                self._reply(wire, asked, replace(blank, call=tool_call(deed, asked.tools, last_result)))
            case Fail(status, message, headers, body):
                self._send(status, wire.failure(status, message) if body is None else body, headers)
            case Hang(seconds):
                self._still_here_after(seconds)
                self.close_connection = True
            case Break(seconds):
                self._reply(wire, asked, replace(blank, text="partial"), breaking=seconds)

    def _reply(self, wire: Wire, asked: Asked, reply: Reply, breaking: float | None = None) -> None:
        """Complete; or, where `breaking`, its beginning, so many seconds of silence and a closed connection."""
        broken = breaking is not None
        if asked.stream:
            self._stream(wire.events(reply), broken)
        else:
            self._send(200, wire.whole(reply), broken=broken)
        if broken:
            self._still_here_after(breaking or 0.0)
            self.close_connection = True

    def _stream(self, events: Iterator[bytes], broken: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            if broken:
                return
        self.wfile.write(b"0\r\n\r\n")

    def _send(
        self, status: int, body: Json, headers: Mapping[str, str] | None = None, *, broken: bool = False
    ) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if broken else data)

    def _still_here_after(self, seconds: float) -> bool:
        """Whether the server goes on after so long; it stops without waiting for what is under way."""
        if not self._memory.stopping.wait(seconds):
            return True
        self.close_connection = True
        return False

    def _note(self, did: str, **details: Any) -> None:
        """The path is noted without its query, which may hold a key."""
        key, authorised = fingerprint(self._keys()), self._authorised()
        self._memory.note(Request(self.command, self._path(), key, authorised, did, **details))

    def _path(self) -> str:
        return self.path.partition("?")[0].rstrip("/")

    def _authorised(self) -> bool:
        return self._memory.authorises(self._keys())

    def _keys(self) -> list[str]:
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        in_query = parse_qs(self.path.partition("?")[2]).get("key", [])
        named = [self.headers.get("x-api-key", ""), bearer, self.headers.get("x-goog-api-key", "")]
        return [key for key in (*named, *in_query) if key]
