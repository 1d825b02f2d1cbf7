"""A server that means harm: it costs at most the call it was asked, and gets no key that is not its own."""

from __future__ import annotations

import os
import struct
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

import anyio
import pytest

from sortie.errors import TrackerError
from sortie.trackers.rate_limits import LONGEST
from sortie.trackers.rest_client import PACKED, Bounds, RestClient
from tests.servers.scripted import Answer, ScriptedServer

from .client_scene import TOKEN, client_of, failure_of

pytestmark = pytest.mark.anyio


async def test_no_cookie_is_kept(server: ScriptedServer, client: RestClient) -> None:
    """Each would be sent with every later call, however many there are."""
    for number in range(3):
        server.usual = Answer(headers={"Set-Cookie": f"c{number}={'x' * 1000}; Path=/; Max-Age=9999999"})
        await client.get("/things")
    assert not any("cookie" in name.lower() for asked in server.asked for name in asked.headers)


async def test_what_is_packed_several_times_is_refused_unread(server: ScriptedServer, client: RestClient) -> None:
    """Blocks that say nothing, packed twice: a few kilobytes that take minutes to read and never show a byte."""
    packed = _packed(struct.pack("<BHH", 0, 0, 0xFFFF) * 400_000)
    server.usual = Answer(body=packed, headers={"Content-Encoding": "deflate, deflate"})
    failure = await failure_of(client.call("POST", "/things"))
    assert failure.kind == TrackerError.PAYLOAD
    assert "packed" in str(failure)


def _packed(data: bytes) -> bytes:
    return zlib.compress(data, 9)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "Application/XHTML+xml"])
async def test_a_web_page_is_no_answer_to_anything(
    server: ScriptedServer, client: RestClient, method: str, kind: str
) -> None:
    """A login on the way answers every question so: what was to be written is not written."""
    server.usual = Answer(body=b"<html>Log in</html>", headers={"Content-Type": kind})
    failure = await failure_of(client.call(method, "/things"))
    assert failure.kind == TrackerError.PAYLOAD
    assert "Example answered" in failure.message and "web page" in failure.message
    assert "login" in failure.fix
    server.usual = Answer(body=b"\n", headers={"Content-Type": kind})
    assert (await client.call(method, "/things")).status == 200, "a server may call nothing at all so too"


async def test_nothing_is_asked_for_in_a_packing_that_would_be_refused(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """Where a package, or a newer Python, can unpack more, the library that asks would offer it by itself."""
    (tmp_path / "brotli.py").write_text("error = ValueError\n")
    code = f"""
import anyio
from sortie.trackers.rest_client import RestClient
async def nobody():
    return {{}}
async def main():
    client = RestClient("Example", {server.url!r}, authorization=nobody, calls_per_minute=9)
    await client.get("/things")
    await client.aclose()
anyio.run(main)
"""
    await anyio.run_process([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    (asked,) = server.asked
    assert {name.strip() for name in asked.headers["Accept-Encoding"].split(",")} <= PACKED


@pytest.mark.parametrize("tag", ['"é"', '"\xff"', '"a\x7fb"', '"' + "x" * 50_000 + '"'])
async def test_an_odd_tag_does_not_spoil_the_next_call(
    server: ScriptedServer, client: RestClient, tag: str
) -> None:
    server.usual = Answer(headers={"ETag": tag})
    for _ in range(3):
        assert (await client.get("/things")).status == 200


@pytest.mark.parametrize(
    ("link", "following"),
    [
        ('<https://x/?q=a,b&page=2>; rel="next"', {"q": "a,b", "page": "2"}),
        ('<https://x/?page=1>; rel="prev", <https://x/?page=3,3>; rel="next"', {"page": "3,3"}),
        ("<https://x/?page=2>; rel=next", {"page": "2"}),
        ('<https://x/?page=2>; title="a"; REL="next"', {"page": "2"}),
        ('<https://x/?page=2>; rel="last"', None),
    ],
)
async def test_the_next_page_is_found_in_any_form_of_the_link(
    server: ScriptedServer, client: RestClient, link: str, following: dict[str, str] | None
) -> None:
    """A page that is not found would look as if its issues had left."""
    server.usual = Answer(headers={"Link": link})
    assert (await client.get("/things")).next_page == following


@pytest.mark.parametrize("link", ['<http://[>; rel="next"', '<https://x/>; rel="next"'])
async def test_a_next_page_that_cannot_be_asked_for_is_an_error(
    server: ScriptedServer, client: RestClient, link: str
) -> None:
    server.usual = Answer(headers={"Link": link})
    assert (await failure_of(client.get("/things"))).kind == TrackerError.PAYLOAD


@pytest.mark.parametrize(
    "headers", [{"X-RateLimit-Reset": "9" * 15}, {"X-RateLimit-Reset": "2000000000", "Date": "0"}]
)
async def test_a_count_that_is_used_up_holds_nobody_for_more_than_a_day(
    server: ScriptedServer, client: RestClient, headers: dict[str, str]
) -> None:
    server.usual = Answer(headers={"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", **headers})
    await client.get("/things")
    held = (await failure_of(client.get("/things"))).until
    assert held is not None and held <= time.time() + LONGEST


async def test_a_proxy_gets_no_key_that_is_for_this_machine(
    server: ScriptedServer, client: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain http is allowed because nobody reads it on the way."""
    with ScriptedServer.running() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("all_proxy", proxy.url)
        await client.get("/things")
        assert proxy.asked == []
    assert [asked.headers["Authorization"] for asked in server.asked] == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (b'[{"title": "\\ud83d cut"}, 1]', "\ufffd cut"),
        (b'[{"title": "\\ude00\\ud83d\\ude00 \\\\ud83d \\ud83d"}, 1]', "\ufffd\U0001f600 \\ud83d \ufffd"),
        (b'[{"title": "\xff caf\xc3\xa9"}, 1]', "\ufffd café"),
    ],
)
async def test_text_that_is_no_unicode_spoils_no_other(
    server: ScriptedServer, client: RestClient, raw: bytes, read: str
) -> None:
    """One issue with half a character in it must not hide all others of its page."""
    server.usual = Answer(body=raw)
    found = (await client.get("/things")).read(list[Any])
    assert found == [{"title": read}, 1]


async def test_a_key_that_no_header_may_have_is_in_no_traceback(server: ScriptedServer) -> None:
    async def authorization() -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN} "}

    client = client_of(server, authorization=authorization)
    failure = await failure_of(client.call("POST", "/things"))
    await client.aclose()
    assert TOKEN not in "".join(traceback.format_exception(failure))


async def test_a_stream_of_interim_answers_is_given_up(server: ScriptedServer) -> None:
    def endless(connection: Any) -> None:
        try:
            while not server.released.is_set():
                connection.sendall(b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 100)
        except OSError:
            pass

    server.usual = Answer(deed=endless)
    client = client_of(server, bounds=Bounds(one_try=0.5, call=1.0))
    with anyio.fail_after(30):
        failure = await failure_of(client.get("/things"))
    await client.aclose()
    assert failure.kind == TrackerError.TRANSPORT
