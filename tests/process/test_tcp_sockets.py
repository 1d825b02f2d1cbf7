"""Sockets as the kernel lists them: who listens, what is at an end of a connection, what a process has open."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from sortie.process.tcp_sockets import links_of, listening_on, port_holders, socket_between


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_whoever_listens_is_found_by_the_port(host):
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        port = listening.getsockname()[1]
        (found,) = listening_on(port)
        assert (found.inode, found.uid) == (os.fstat(listening.fileno()).st_ino, os.getuid())
        assert found.link in links_of(os.getpid())
        ((pid, command),) = port_holders(port)
        assert pid == os.getpid() and "python" in command
    assert [*listening_on(port)] == [] == port_holders(port)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_both_ends_of_a_connection_are_told_apart(host):
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening,
        socket.create_connection((host, listening.getsockname()[1])) as client,
    ):
        accepted, address = listening.accept()
        with accepted:
            server = accepted.getsockname()[:2]
            near, far = socket_between(address[:2], server), socket_between(server, address[:2])
            assert near and near.inode == os.fstat(client.fileno()).st_ino
            assert far and far.inode == os.fstat(accepted.fileno()).st_ino
            client.close()
            closed = socket_between(address[:2], server)
            assert closed is None or closed.inode == 0
    assert socket_between(("192.0.2.1", 40000), ("192.0.2.2", 7678)) is None


def test_a_process_that_has_ended_has_nothing_open():
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(OSError, match="No such"):
        next(links_of(ended.pid))
