"""Requests and answers in JSON lines: a wait ends with an answer, with the end of the other side, or in time."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager

import pytest

from sortie.agents.jsonrpc import Peer, PeerGone, ResponseError
from sortie.process.child import start

ANSWER = (
    "def answer(**fields): print(json.dumps({'id': json.loads(sys.stdin.readline())['id'], **fields}), flush=True)"
)


class Ear:
    def __init__(self):
        self.heard_methods, self.strays, self.asides = [], [], []

    def on_notification(self, message):
        self.heard_methods.append(message.method)

    def on_request(self, message):
        if message.method == "may":
            return {"allowed": True}
        raise ResponseError(-32601, "no such method")

    def on_unreadable(self, line):
        self.strays.append(line)

    def on_stderr(self, text):
        self.asides.append(text)


@pytest.fixture
def other_side(make_order):
    @asynccontextmanager
    async def other_side(program, *, versioned=False):
        order = make_order()
        child = await start(
            [sys.executable, "-c", f"import json, sys, os, time\n{ANSWER}\n{program}"],
            cwd_fd=order.workspace_fd,
            env=order.environment,
            run_id=order.run_id,
            workspace=order.workspace,
            separate_stderr=True,
        )
        ear = Ear()
        peer = Peer(child, ear, versioned=versioned)
        try:
            yield peer, ear
        finally:
            await child.end(grace=0.5)
            await peer.close()

    return other_side


async def test_an_answer_is_found_among_anything(other_side):
    program = """
out = sys.stdout.buffer
for junk in (b"", b"not json", b"\\xff\\x00\\xfe", b"[1, 2]", b'"text"', b"null", b"{", b"[" * 100000,
             b'{"id": 99, "result": 1}', b'{"id": 1, "method": 5}', b'{"x": "' + b"y" * 20_000_000 + b'"}'):
    out.write(junk + b"\\n")
out.write(b'{"method": "news", "params": {}}\\n')
out.flush()
answer(result={"found": True})
"""
    async with other_side(program) as (peer, ear):
        assert json.loads(bytes(await peer.request("find", {}, 30))) == {"found": True}
        assert ear.heard_methods == ["news"]
        assert len(ear.strays) >= 6


async def test_text_that_is_none_is_replaced_in_an_answer_and_in_news(other_side):
    program = r"""
number = json.loads(sys.stdin.readline())["id"]
out = sys.stdout.buffer
out.write(b'{"method": "news", "params": {"text": "\xff\\ud800"}}\n')
out.write(b'{"id": %d, "note": "\xfe", "result": {"said": "\\udc00"}}\n' % number)
out.flush()
"""
    async with other_side(program) as (peer, ear):
        assert json.loads(bytes(await peer.request("say", {}, 30))) == {"said": "\N{REPLACEMENT CHARACTER}"}
    assert (ear.heard_methods, ear.strays) == (["news"], [])


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": -32000, "message": "no"}, -32000, "no"),
        ({"code": "odd"}, 0, "no message"),
        ("just text", 0, "just text"),
        ([1], 0, "[1]"),
    ],
)
async def test_every_form_of_error_is_one(other_side, error, code, message):
    async with other_side(f"answer(error={error!r})") as (peer, _):
        with pytest.raises(ResponseError) as caught:
            await peer.request("fail", {}, 30)
    assert (caught.value.code, caught.value.message) == (code, message)


async def test_what_we_are_asked_is_answered_also_what_we_do_not_know(other_side):
    program = """
request = json.loads(sys.stdin.readline())
for number, method in ((7, "may"), ("x", "fly")):
    print(json.dumps({"id": number, "method": method}), flush=True)
told = [json.loads(sys.stdin.readline()) for _ in range(2)]
print(json.dumps({"id": request["id"], "result": told}), flush=True)
"""
    async with other_side(program) as (peer, _):
        told = json.loads(bytes(await peer.request("ask", {}, 30)))
    assert told == [
        {"id": 7, "result": {"allowed": True}},
        {"id": "x", "error": {"code": -32601, "message": "no such method"}},
    ]


async def test_an_end_without_an_answer_is_told_with_the_last_words(other_side):
    async with other_side("sys.stdin.readline(); sys.stderr.write('out of memory\\n'); sys.exit(3)") as (peer, ear):
        with pytest.raises(PeerGone):
            await peer.request("work", {}, 30)
    assert list(peer.stderr_tail) == ear.asides == ["out of memory"]


async def test_silence_ends_in_time_and_a_later_answer_is_not_taken_for_another(other_side):
    program = """
first = json.loads(sys.stdin.readline()); second = json.loads(sys.stdin.readline())
for one in (first, second): print(json.dumps({"id": one["id"], "result": one["method"]}), flush=True)
time.sleep(60)
"""
    async with other_side(program) as (peer, _):
        with pytest.raises(TimeoutError):
            await peer.request("first", {}, 0.2)
        assert json.loads(bytes(await peer.request("second", {}, 30))) == "second"


async def test_the_version_is_told_where_the_protocol_wants_it(other_side):
    program = "line = sys.stdin.readline(); print(json.dumps({'id': 1, 'result': line}), flush=True)"
    for versioned in (True, False):
        async with other_side(program, versioned=versioned) as (peer, _):
            sent = json.loads(json.loads(bytes(await peer.request("hello", {}, 30))))
        assert ("jsonrpc" in sent) is versioned


async def test_a_flood_on_standard_error_does_not_stop_the_exchange(other_side):
    program = "for _ in range(20000): sys.stderr.write('x' * 99 + '\\n')\nanswer(result=1)"
    async with other_side(program) as (peer, _):
        assert bytes(await peer.request("work", {}, 30)) == b"1"
