"""The network without an outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .network import AS_ANYBODY, AS_ROOT, LoopbackWorld, Way, loopback_only

INSIDE = """
import errno, os, socket
with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname(), 10) as client, server.accept()[0] as accepted:
        client.sendall(b"hello")
        assert accepted.recv(5) == b"hello"
try:
    socket.create_connection(("192.0.2.1", 80), 10).close()
except OSError as problem:
    print(errno.errorcode[problem.errno], os.getuid())
"""


def run(prefix, script: str) -> str:
    done = subprocess.run([*prefix, sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=[AS_ROOT, AS_ANYBODY], ids=["as root", "as anybody"])
def world(request):
    with LoopbackWorld([request.param]) as world:
        if world.reason:
            pytest.skip(f"NOT TESTED: {world.reason}")
        yield world


def test_inside_only_the_loopback_works(world):
    assert run(world.prefix, INSIDE) == f"ENETUNREACH {os.getuid()}\n"


def test_all_who_enter_share_one_network(world):
    namespace = "import os; print(os.readlink('/proc/self/ns/net'))"
    inside = {run(world.prefix, namespace), run(world.prefix, namespace)}
    assert len(inside) == 1
    assert inside != {run([], namespace)}


def test_nothing_is_left_after_closing(world):
    (network,) = {word.removeprefix("--net=") for word in world.prefix if word.startswith("--net=")}
    network_id = os.readlink(network)
    world.close()
    assert network_id not in networks_in_use()


def networks_in_use() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(process))
        except OSError:
            pass  # it ended between the two looks
    return found


def test_one_command_alone_has_only_the_loopback():
    if not loopback_only():
        pytest.skip("NOT TESTED: this machine allows no network of its own")
    assert run(loopback_only(), INSIDE) == f"ENETUNREACH {os.getuid()}\n"


def test_where_it_is_impossible_the_reason_is_told():
    with LoopbackWorld([Way(("--no-such-option",), ())]) as world:
        assert world.prefix == []
        assert "no-such-option" in world.reason


def test_the_second_way_is_taken_where_the_first_is_impossible(world):
    possible = AS_ANYBODY if any(word.startswith("--user=") for word in world.prefix) else AS_ROOT
    with LoopbackWorld([Way(("--no-such-option",), ()), possible]) as second:
        assert second.reason == ""
        assert run(second.prefix, INSIDE) == f"ENETUNREACH {os.getuid()}\n"


def test_without_the_program_the_reason_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with LoopbackWorld() as world:
        assert world.prefix == []
        assert world.reason == "unshare: No such file or directory"
