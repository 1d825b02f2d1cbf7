"""The socket of the dashboard: bound before anything starts, so that a port that is taken is reported at once.

If a port was set, the service does not start without it; the default port may be taken.
"""

from __future__ import annotations

import errno
import socket

from msgspec.structs import replace

from ..errors import ConfigurationError, SortieError
from ..process.tcp_sockets import port_holders
from ..workflow.checks import IS_EXPOSED
from ..workflow.config import DEFAULT_PORT, ServerConfig

# Connections that may wait to be accepted, while the process that answers is restarted for instance.
BACKLOG = 2048
_WHY = {
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user may not take it",
}


class NotFree(SortieError):
    """The address cannot be bound."""


def as_asked(server: ServerConfig, port: int | None, host: str | None) -> ServerConfig:
    """The settings, overridden by the command line; `--host` alone asks for the dashboard too."""
    if host is not None:
        asked = server.port if server.port is not None else DEFAULT_PORT
        server = replace(server, host=host, port=asked if port is None else port)
    return server if port is None else replace(server, port=port)


def listen(server: ServerConfig, port: int) -> socket.socket:
    """On this port, or on any free one if it is 0. Raises `NotFree`, or `ConfigurationError` if other machines
    could use it without a token."""
    if server.is_exposed:
        raise ConfigurationError(f"{server.host} {IS_EXPOSED}.")
    where = authority(server.host, port)
    try:
        flags = socket.AI_NUMERICHOST | socket.AI_PASSIVE
        family, _, _, _, address = socket.getaddrinfo(server.host, port, type=socket.SOCK_STREAM, flags=flags)[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        fix = "Name another one with `--port`; `--port 0` goes on without a dashboard."
        if error.errno == errno.EADDRINUSE:
            raise NotFree(f"{where} is taken{_by(port)}.", fix=fix) from error
        reason = _WHY.get(error.errno or 0) or (error.strerror or str(error)).lower()
        raise NotFree(f"The dashboard cannot listen on {where}: {reason}.", fix=fix) from error


def _by(port: int) -> str:
    holders = port_holders(port)
    if not holders:
        return ""
    pid, command = holders[0]  # the older one, if it passed the socket on to a child
    return f" by process {pid} ({command})" if command else f" by process {pid}"


def url_of(listening: socket.socket) -> str:
    """Its address for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    return url_at(host, port)


def url_at(host: str, port: int) -> str:
    return f"http://{authority({'0.0.0.0': '127.0.0.1', '::': '::1'}.get(host, host), port)}/"  # noqa: S104


def authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
