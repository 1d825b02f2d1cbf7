"""Where the dashboard listens: an address is taken before anything starts, so that whoever asked for it is told.

A port that somebody asked for is a wish, and without it nothing starts; the default is an offer.
"""

from __future__ import annotations

import errno
import socket

from msgspec.structs import replace

from ..errors import ConfigurationError, SortieError
from ..process.tcp_sockets import port_holders
from ..workflow.checks import IS_EXPOSED
from ..workflow.config import DEFAULT_PORT, ServerConfig

# So many may wait to be let in, while the process that answers is started anew for instance.
BACKLOG = 2048
_WHY = {
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user may not take it",
}


class NotFree(SortieError):
    """The address cannot be had."""


def as_asked(server: ServerConfig, port: int | None, host: str | None) -> ServerConfig:
    """The settings with what the command line says; whoever names a host wants to be served there."""
    if host is not None:
        asked = server.port if server.port is not None else DEFAULT_PORT
        server = replace(server, host=host, port=asked if port is None else port)
    return server if port is None else replace(server, port=port)


def listen(server: ServerConfig, port: int) -> socket.socket:
    """On this port, or on any that is free where it is 0. Raises `NotFree`, or `ConfigurationError` where strangers
    could use it."""
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
    pid, command = holders[0]  # the older one, where it passed the socket on
    return f" by process {pid} ({command})" if command else f" by process {pid}"


def url_of(listening: socket.socket) -> str:
    """Where a person on this machine finds it."""
    host, port = listening.getsockname()[:2]
    return url_at(host, port)


def url_at(host: str, port: int) -> str:
    return f"http://{authority({'0.0.0.0': '127.0.0.1', '::': '::1'}.get(host, host), port)}/"  # noqa: S104


def authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
