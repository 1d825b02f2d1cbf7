"""One connection of a client: limits the time for sending a request and for reading an answer.

Handlers that read the store are not limited here. The number of connections is limited too.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# A thousand people who watch, each with a stream and a page, fit; who comes after these is told that it is busy,
# and who comes after those is told nothing.
MOST_REQUESTS = 2_000
MOST_CONNECTIONS = 2_500
_NO_LINGERING = struct.pack("ii", 1, 0)


class BoundedConnection(H11Protocol):
    most_connections = MOST_CONNECTIONS
    # Seconds for the head of a request, and for any part of an answer to be read.
    head_within = 10.0
    read_within = 30.0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._request_is_late: asyncio.TimerHandle | None = None
        self._reader_is_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The library does so only where it knows the protocol of the socket, which one that was passed on may not.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > self.most_connections:
            transport.abort()
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._request_is_late, self._reader_is_late):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Nonsense may follow a request, too. Whoever is about to answer that is told that nobody listens; where an
        answer has begun the library fails to give another."""
        self._give_up_answering()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.close()

    def shutdown(self) -> None:
        """An answer that has begun and not ended is a stream. Its reader will come back."""
        super().shutdown()
        answering: RequestResponseCycle | Any = self.cycle
        if answering is not None and answering.response_started and not answering.response_complete:
            self._give_up_answering()
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader_is_late = self.loop.call_later(self.read_within, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reader_is_late is not None:
            self._reader_is_late.cancel()
            self._reader_is_late = None

    def _give_up_answering(self) -> None:
        answering: RequestResponseCycle | Any = self.cycle
        if answering is not None and not answering.response_complete:
            answering.disconnected = True
            answering.message_event.set()

    @property
    def _socket(self) -> socket.socket:
        found: socket.socket = self.transport.get_extra_info("socket")
        return found

    def _drop(self) -> None:
        """With what the kernel still has to send, which would wait for the reader too."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
        self.transport.abort()

    def _await_request(self) -> None:
        if self._request_is_late is not None:
            self._request_is_late.cancel()
        self._request_is_late = self.loop.call_later(self.head_within, self._give_up)

    def _give_up(self) -> None:
        answering: RequestResponseCycle | Any = self.cycle  # there is none before the first request
        if answering is None or answering.response_complete:
            self.transport.abort()
