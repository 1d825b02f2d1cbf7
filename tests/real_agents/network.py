"""A network without an outside: only 127.0.0.1 works, and every other address is unreachable at once.

Uses the standard library alone, because this file is also the first program inside: it makes the loopback work,
then becomes the command it was given, or waits until its standard input closes.
"""

from __future__ import annotations

import fcntl
import functools
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

_SECONDS = 20.0
_UP = "up\n"


class Way(NamedTuple):
    """Options of `unshare` that make such a network, and of `nsenter` to enter it."""

    make: tuple[str, ...]
    enter: tuple[str, ...]


AS_ROOT = Way(("--net",), ("--net=/proc/{pid}/ns/net",))
# In a user namespace anybody may have a network of their own, and everybody stays who they are.
AS_ANYBODY = Way(
    ("--map-current-user", "--keep-caps", "--net"),
    ("--user=/proc/{pid}/ns/user", "--net=/proc/{pid}/ns/net", "--preserve-credentials"),
)
WAYS = (AS_ROOT, AS_ANYBODY)


class LoopbackWorld:
    """One such network for many commands: those that start with `prefix` can reach each other and nobody else.

    Where the machine allows no such network, `prefix` is empty and `reason` says why.
    """

    def __init__(self, ways: Sequence[Way] = WAYS) -> None:
        self.prefix: list[str] = []
        self.reason = ""
        self._holder: subprocess.Popen[str] | None = None
        for way in ways:
            self.reason = self._open(way)
            if not self.reason:
                break

    def _open(self, way: Way) -> str:
        """The reason why this way does not work, if it does not."""
        try:
            self._holder = subprocess.Popen(
                _first_inside(way),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except OSError as problem:
            return f"{problem.filename}: {problem.strerror}"
        said = _first_line(self._holder)
        if said == _UP:
            self.prefix = ["nsenter", *(word.format(pid=self._holder.pid) for word in way.enter), "--"]
            return ""
        self.close()
        return said.strip() or f"there was no network within {_SECONDS} s"

    def close(self) -> None:
        """The network ends with the last process in it; the one that kept it ends now."""
        if self._holder is None:
            return
        assert self._holder.stdin is not None and self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        try:
            self._holder.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait()
        self._holder = None

    def __enter__(self) -> LoopbackWorld:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@functools.cache
def loopback_only() -> list[str]:
    """What to put before one command so that it is alone in such a network; nothing where that is impossible."""
    reason = ""
    for way in WAYS:
        with LoopbackWorld([way]) as world:
            if not world.reason:
                return _first_inside(way)
            reason = world.reason
    print(f"NOT CUT OFF FROM THE NETWORK: {reason}", file=sys.stderr)
    return []


def _first_inside(way: Way) -> list[str]:
    return ["unshare", *way.make, "--", sys.executable, "-I", __file__]


def _first_line(holder: subprocess.Popen[str]) -> str:
    assert holder.stdout is not None
    ready, _, _ = select.select([holder.stdout], [], [], _SECONDS)
    return holder.stdout.readline() if ready else ""


def _make_loopback_work() -> None:
    read_flags, write_flags, up = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
    request = struct.Struct("16sH22x")  # ifreq: the name, then the flags
    with socket.socket() as any_socket:
        name, flags = request.unpack(fcntl.ioctl(any_socket, read_flags, request.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, write_flags, request.pack(name, flags | up))


def _main(command: list[str]) -> None:
    try:
        _make_loopback_work()
    except OSError as problem:
        sys.exit(f"the loopback cannot be switched on: {problem.strerror}")
    if command:
        os.execvp(command[0], command)
    print(_UP, end="", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _main(sys.argv[1:])
