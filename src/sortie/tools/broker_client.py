"""The way to an orchestrator that answers for the sidecar: one line there, one line back, over a Unix socket.

So the sidecar needs no credentials and loads no tracker. The other end is `broker_server`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import envelope
from .calls import Cancellation

REQUEST_LIMIT = 1024 * 1024
ANSWER_LIMIT = 64 * 1024 * 1024

# Longer than the orchestrator's own limit for a call, so that its answer about that arrives.
DEADLINE = 40.0

_CHUNK = 65536


def call(
    path: str, token: str, tool: str, arguments: object, cancellation: Cancellation, deadline: float = DEADLINE
) -> dict[str, Any]:
    """The orchestrator's answer, or an envelope that says why there is none."""
    line = encoded({"token": token, "tool": tool, "arguments": arguments})
    if len(line) > REQUEST_LIMIT:
        return envelope.failure(envelope.INVALID_INPUT, "The arguments are larger than 1 MiB.")
    try:
        answer = json.loads(_exchange(path, line, cancellation, deadline))
    except TimeoutError:
        return _unreachable(f"it did not answer within {deadline:g} s")
    except OSError as error:
        return _unreachable(error.strerror or type(error).__name__)
    except ValueError:
        return _unreachable("it broke off its answer")
    return answer if isinstance(answer, dict) else _unreachable("its answer is not an object")


def encoded(message: dict[str, Any]) -> bytes:
    """A line of the broker, there and back."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """Another name of a socket, short enough for the 108 bytes a socket's name may have."""
    folder, name = os.path.split(path)
    descriptor = os.open(folder or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _exchange(path: str, line: bytes, cancellation: Cancellation, deadline: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(deadline)
        with short_path(path) as name:
            connection.connect(name)
        with cancellation.stopping(lambda: _hang_up(connection)):
            connection.sendall(line)
            with connection.makefile("rb", _CHUNK) as answers:
                answer: bytes = answers.readline(ANSWER_LIMIT + 1)
    if not answer.endswith(b"\n"):
        raise ValueError("too long, or no end of line")
    return answer


def _hang_up(connection: socket.socket) -> None:
    """Ends a wait in any thread, and tells the other end to stop."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other end was quicker


def _unreachable(why: str) -> dict[str, Any]:
    return envelope.failure(envelope.TRANSPORT_ERROR, f"The orchestrator cannot be asked: {why}.")
