"""Addresses that secrets are sent to, which of them only this machine reaches, and where names lead."""

from __future__ import annotations

import pytest

from sortie.protocol.web_address import address_problem, is_loopback, issue_path, path_of

EXAMPLE = "https://server.example.com"


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        *(("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False)),
        *(("localhost.example.com", False), ("127.0.0.1.example.com", False), ("", False)),
    ],
)
def test_what_only_this_machine_reaches(host, answer):
    assert is_loopback(host) is answer


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("https://server.example.com:8443/a/b", ""),
        ("http://[::ffff:127.0.0.1]:8080", ""),
        ("https://[broken", f"is no address of a server, such as {EXAMPLE}"),
        ("https://host:port", f"is no address of a server, such as {EXAMPLE}"),
        ("https://", f"must be the address of a server, such as {EXAMPLE}"),
        ("https://server.example.com/\n", f"must be the address of a server, such as {EXAMPLE}"),
        ("https://ser\u202ever.example.com", f"must be the address of a server, such as {EXAMPLE}"),
        ("https://me@server.example.com", "must be a plain address, without a user, a question mark or a #"),
        ("http://10.0.0.1", "must begin with https://, because what is sent would be readable on the way"),
    ],
)
def test_a_secret_goes_only_to_an_address_where_nobody_reads_it(address, problem):
    assert address_problem(address, EXAMPLE) == problem


def test_a_question_mark_is_a_matter_of_what_is_sent():
    assert "a question mark" in address_problem(f"{EXAMPLE}/?team=a", EXAMPLE)
    assert address_problem(f"{EXAMPLE}/?team=a", EXAMPLE, may_have_query=True) == ""
    refusal = address_problem(f"{EXAMPLE}/?team=a#b", EXAMPLE, may_have_query=True)
    assert refusal == "must be a plain address, without a user or a #"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("SHOP-1", "/issues/SHOP-1"),
        ("a/b?c#d", "/issues/a%2Fb%3Fc%23d"),
        ("...", "/issues/..."),
        ("half \ud800 a pair", "/issues/half%20%3F%20a%20pair"),
        (".", "/issues/?named=."),
        ("..", "/issues/?named=.."),
        ("", "/issues/?named="),
        ("two\nlines", "/issues/?named=two%0Alines"),
    ],
)
def test_whatever_an_issue_is_called_it_has_an_address(name, path):
    assert issue_path(name) == path


def test_what_can_be_done_with_something_stands_behind_its_name():
    assert issue_path("SHOP-1", "stop") == "/issues/SHOP-1/stop"
    assert issue_path("..", "stop") == "/issues//stop?named=.."
    assert path_of("/runs/", "a/b") == "/runs/a%2Fb"
