"""The client that trackers ask servers with: errors, repeating, limits, budget, tags, and no secret anywhere."""

from __future__ import annotations

import gzip
import time

import anyio
import msgspec
import pytest

from sortie.core.narrate import clock
from sortie.errors import TrackerError
from sortie.trackers.rate_limits import for_a_tool
from sortie.trackers.rest_client import Bounds, endpoint_problem
from tests.servers.scripted import Answer

from .client_scene import TOKEN, client_of, failure_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, TrackerError.NOT_FOUND),
        (400, TrackerError.PAYLOAD),
        (401, TrackerError.AUTH),
        (403, TrackerError.AUTH),
        (404, TrackerError.NOT_FOUND),
        (409, TrackerError.API),
        (410, TrackerError.NOT_FOUND),
        (418, TrackerError.API),
        (422, TrackerError.PAYLOAD),
        (429, TrackerError.RATE_LIMITED),
        (500, TrackerError.API),
        (503, TrackerError.API),
    ],
)
async def test_the_kind_of_an_error_is_what_its_status_means(server, client, status, kind):
    """EXT-07: the kinds that agents see follow the meaning of HTTP."""
    server.usual = Answer(status, b'{"message": "No luck."}')
    failure = await failure_of(client.call("POST", "/things"))
    assert failure.kind == kind
    assert "No luck." in str(failure)


@pytest.mark.parametrize(
    "body",
    [
        b'{"errorMessages": ["Nobody there."], "errors": {"status": "is wrong"}}',
        b'{"errors": ["Nobody there.", "status: is wrong"]}',
        b'{"message": "Nobody there.", "errors": [{"status": "is wrong"}]}',
    ],
)
async def test_what_the_server_says_of_a_refusal_is_told(server, client, body):
    server.usual = Answer(422, body)
    told = str(await failure_of(client.call("POST", "/things")))
    assert "Nobody there." in told
    assert "status: is wrong" in told


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1]", b'{"message": 7}', b"\xff\xfe", b'{"message": "' + b"x" * 10**6]
)
async def test_a_refusal_that_says_nothing_useful_is_told_by_its_status(server, client, body):
    server.usual = Answer(404, body)
    told = str(await failure_of(client.get("/things/1")))
    assert "Example answered 404 to GET /things/1" in told
    assert len(told) < 700


async def test_no_error_contains_a_secret_or_a_control_character(server, client):
    said = msgspec.json.encode({"message": f"Bad token {TOKEN}\x1b[31m\n\u202egnp"})
    for status in (400, 401, 403, 404, 429, 500):
        server.usual = Answer(status, said, {"Retry-After": "1"} if status == 429 else {})
        fresh = client_of(server)
        told = str(await failure_of(fresh.call("POST", f"/things/{TOKEN}")))
        await fresh.aclose()
        assert TOKEN not in told
        assert "[redacted]" in told
        assert told.isprintable()


async def test_no_half_of_a_secret_is_left_where_a_message_is_cut(server, client):
    for before in range(420, 500, 4):
        server.usual = Answer(400, msgspec.json.encode({"message": "x" * before + TOKEN}))
        assert TOKEN[:8] not in str(await failure_of(client.get("/things")))


async def test_what_may_be_repeated_is_tried_again_after_a_passing_failure(server, client):
    def drop(connection):
        connection.close()

    server.script.extend([Answer(502), Answer(deed=drop), Answer(body=b"[1]")])
    assert (await client.get("/things")).read(list[int]) == [1]
    assert len(server.asked) == 3


async def test_what_must_not_be_repeated_is_tried_once(server, client):
    """A comment that was perhaps written is not written again by the client."""
    server.script.extend([Answer(502), Answer(body=b"{}")])
    failure = await failure_of(client.call("POST", "/comments", json={"body": "hello"}))
    assert (failure.kind, failure.passing) == (TrackerError.API, True)
    assert len(server.asked) == 1
    await client.get("/things")
    server.script.extend([Answer(502), Answer(502), Answer(body=b"{}")])
    await failure_of(client.call("PUT", "/issues/1", json={"notes": "hello"}, repeatable=False))
    await client.call("POST", "/labels", json=["a"], repeatable=True)
    assert [asked.path for asked in server.asked[2:]] == ["/issues/1", "/labels", "/labels"]


async def test_what_the_server_refuses_for_good_is_not_repeated(server, client):
    server.usual = Answer(404)
    await failure_of(client.get("/things"))
    assert len(server.asked) == 1


async def test_a_server_that_cannot_be_reached_is_a_failure_of_the_way(server):
    client = client_of(server, endpoint="http://127.0.0.1:1")  # nobody listens there
    failure = await failure_of(client.get("/things"))
    assert (failure.kind, failure.passing) == (TrackerError.TRANSPORT, True)
    assert "cannot be reached at http://127.0.0.1:1:" in failure.message
    assert "tracker.endpoint" in failure.fix and "proxy" in failure.fix
    await client.aclose()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1"),  # needs a package of its own
        ("HTTPS_PROXY", "gopher://user:hunter2@127.0.0.1:1"),
        ("HTTPS_PROXY", "http://user:hunter2#more@127.0.0.1:1"),
        ("SSL_CERT_FILE", "/no/such/file.pem"),
    ],
)
async def test_a_variable_of_the_network_that_cannot_be_used_is_named(server, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    client = client_of(server, endpoint="https://127.0.0.1:1")
    failure = await failure_of(client.get("/things"))
    assert failure.kind == TrackerError.TRANSPORT
    assert variable in failure.fix
    assert "hunter2" not in str(failure)


@pytest.mark.parametrize("deed", ["never", "slow", "half"])
async def test_a_server_that_does_not_come_to_an_end_is_given_up(server, deed):
    """Slow bytes too: what counts is the whole answer, not the next byte."""

    def slow(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not server.released.wait(0.02):
            try:
                connection.sendall(b" ")
            except OSError:
                return

    def half(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[1, 2")

    server.usual = {"never": server.never_answers(), "slow": Answer(deed=slow), "half": Answer(deed=half)}[deed]
    client = client_of(server, bounds=Bounds(one_try=0.3, call=1.0))
    failure = await failure_of(client.get("/things"))
    assert failure.kind == TrackerError.TRANSPORT
    await client.aclose()


async def test_an_answer_without_an_end_is_refused(server):
    """However small it is on the way: it counts as it is unpacked."""
    client = client_of(server, bounds=Bounds(answer=100_000))
    server.usual = Answer(body=gzip.compress(b"[" + b" " * 10**6 + b"]"), headers={"Content-Encoding": "gzip"})
    failure = await failure_of(client.get("/things"))
    assert failure.kind == TrackerError.PAYLOAD
    assert "more than" in str(failure)
    await client.aclose()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1", b'{"a": 1}', b"\xff"])
async def test_an_answer_that_is_not_what_was_expected_is_a_payload_error(server, client, body):
    server.usual = Answer(body=body)
    reply = await client.get("/things")
    with pytest.raises(TrackerError) as failure:
        reply.read(list[int])
    assert failure.value.kind == TrackerError.PAYLOAD


async def test_connections_are_used_again(server, client):
    for _ in range(5):
        await client.get("/things")
    assert len({asked.connection for asked in server.asked}) == 1


async def test_what_did_not_change_is_not_sent_again(server, client):
    tagged = {"ETag": '"v1"', "Link": f'<{server.url}/things?page=2>; rel="next"'}
    server.script.extend([Answer(body=b"[1]", headers=tagged), Answer(304), Answer(body=b"[2]")])
    first, second, third = [await client.get("/things", {"page": "1"}) for _ in range(3)]
    assert [asked.headers.get("If-None-Match") for asked in server.asked] == [None, '"v1"', '"v1"']
    assert (first.unchanged, second.unchanged, third.unchanged) == (False, True, False)
    assert second.read(list[int]) == [1]
    assert first.next_page == second.next_page == {"page": "2"}
    assert third.next_page is None
    await client.get("/things", {"page": "2"})
    assert "If-None-Match" not in server.asked[-1].headers, "another page has a tag of its own"


async def test_what_comes_after_a_page_is_told_anew_with_each_answer(server, client):
    """A page that is full stays as it is when another one comes after it."""
    tag = {"ETag": '"v1"'}
    link = {"Link": f'<{server.url}/things?page=2>; rel="next"'}
    server.script.extend(
        [Answer(body=b"[1]", headers=tag), Answer(304, headers=tag | link), Answer(304, headers=tag)]
    )
    replies = [await client.get("/things") for _ in range(3)]
    assert [reply.next_page for reply in replies] == [None, {"page": "2"}, None]
    assert [reply.read(list[int]) for reply in replies] == [[1]] * 3


async def test_no_link_leads_to_another_server(server, client):
    """A key is never sent to an address that an answer names."""
    link = '<https://evil.example/steal?page=2&per_page=100>; rel="next"'
    server.usual = Answer(body=b"[]", headers={"Link": link})
    assert (await client.get("/things")).next_page == {"page": "2", "per_page": "100"}
    server.usual = Answer(302, headers={"Location": "https://evil.example/"})
    assert "moved to https://evil.example/" in str(await failure_of(client.get("/things")))
    assert len(server.asked) == 2


async def test_a_limit_holds_every_call_until_its_time(server, client):
    said = b'{"message": "You have exceeded a secondary rate limit."}'
    server.script.append(Answer(403, said, {"Retry-After": "70"}))
    before = time.time()
    first = await failure_of(client.get("/things"))
    second = await failure_of(client.call("POST", "/comments", bucket="other"))
    assert len(server.asked) == 1, "nobody asks a server that said not now"
    for failure in (first, second):
        assert failure.kind == TrackerError.RATE_LIMITED
        assert failure.until is not None
        assert before + 69 <= failure.until <= time.time() + 71
        assert clock(failure.until) in failure.message, "with its day, by the clock that all of us tell"
    assert client.call_use().held_until == first.until


async def test_a_server_that_names_no_time_waits_longer_each_time_until_it_has_answered(server):
    now = [1_794_970_000.0]
    client = client_of(server, clock=lambda: now[0])
    limited = Answer(403, b'{"message": "You have exceeded a secondary rate limit."}')
    tagged = Answer(body=b"[1]", headers={"ETag": '"v1"'})
    server.script.extend([tagged, limited, limited, Answer(304), limited, limited, Answer(body=b"[2]"), limited])
    waits: list[float] = []
    for _ in range(8):
        try:
            await client.get("/things")
            waits.append(0)
        except TrackerError as failure:
            assert failure.until is not None
            waits.append(failure.until - now[0])
            now[0] = failure.until
    assert waits == [0, 60, 120, 0, 60, 120, 0, 60]
    await client.aclose()


async def test_a_count_that_is_used_up_holds_calls_of_its_kind_only(server, client):
    reset = {"X-RateLimit-Limit": "30", "X-RateLimit-Remaining": "0", "X-RateLimit-Resource": "search"}
    server.script.append(Answer(body=b"[]", headers={**reset, "X-RateLimit-Reset": str(int(time.time()) + 50)}))
    await client.call("GET", "/search", bucket="search")
    held = await failure_of(client.call("GET", "/search", bucket="search"))
    assert held.kind == TrackerError.RATE_LIMITED
    assert client.call_use().held_until is None, "runs go on asking"
    await client.get("/things")
    assert [asked.path for asked in server.asked] == ["/search", "/things"]


async def test_what_the_server_counts_is_told(server, client):
    counted = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4987", "X-RateLimit-Reset": "4102444800"}
    server.usual = Answer(headers=counted)
    await client.get("/things")
    use = client.call_use()
    assert (use.made, use.limit, use.remaining) == (1, 5000, 4987)
    assert use.held_until is None


async def test_looking_leaves_a_part_of_the_budget_to_the_runs(server):
    client = client_of(server, calls_per_minute=8)
    for _ in range(6):
        await client.get("/things", look=True)
    failure = await failure_of(client.get("/things", look=True))
    assert failure.kind == TrackerError.RATE_LIMITED
    assert "tracker.calls_per_minute" in str(failure)
    assert failure.until is not None
    assert failure.until > time.time()
    for _ in range(2):
        await client.call("POST", "/comments")
    assert (await failure_of(client.call("POST", "/comments"))).kind == TrackerError.RATE_LIMITED
    assert len(server.asked) == client.call_use().made == 8
    await client.aclose()


async def test_a_budget_that_no_look_gets_along_with_is_called_so(server):
    """Another try is not promised to come further, so it is nothing that passes; it has all of a minute's calls."""
    client = client_of(server, calls_per_minute=6)
    before = time.time()
    for page in range(4):
        await client.get("/things", {"page": str(page)}, look=True)
    failure = await failure_of(client.get("/things", {"page": "4"}, look=True))
    assert (failure.kind, failure.passing) == (TrackerError.RATE_LIMITED, False)
    assert failure.message == (
        "One poll takes more than the 4 calls a minute that tracker.calls_per_minute: 6 leaves for polling,"
        " so no poll can finish."
    )
    assert failure.fix == "Raise tracker.calls_per_minute (default: 120), or narrow the selection of issues."
    assert failure.until is not None
    assert before + 59 <= failure.until <= time.time() + 61
    await client.aclose()


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("Repository was archived so is read-only.", "It can be read only: unarchive it, or leave it alone."),
        ("Unable to create comment because issue is locked.", "Unlock it, or leave it alone."),
        ("Resource not accessible by personal access token", "Check tracker.api_key and its permissions."),
        ("", "Check tracker.api_key and its permissions."),
        ("Your account is locked out.", "Check tracker.api_key and its permissions."),
    ],
)
async def test_whoever_may_not_write_there_is_not_told_to_check_the_key(server, client, message, fix):
    server.usual = Answer(403, msgspec.json.encode({"message": message}))
    failure = await failure_of(client.call("POST", "/issues/1/comments"))
    assert (failure.kind, failure.fix) == (TrackerError.AUTH, fix)
    assert message in str(failure)


async def test_an_agent_that_asks_without_end_keeps_nobody_from_looking(server):
    client = client_of(server, calls_per_minute=8)
    with for_a_tool():
        for _ in range(2):
            await client.get("/things")
        failure = await failure_of(client.get("/things"))
    assert failure.kind == TrackerError.RATE_LIMITED
    assert "the 2 calls a minute that tools of agents have of tracker.calls_per_minute are used up" in str(failure)
    await client.get("/things", look=True)
    await client.call("POST", "/comments")
    await client.aclose()


async def test_many_calls_at_once_share_the_budget(server):
    client = client_of(server, calls_per_minute=10)
    answered: list[str] = []

    async def ask() -> None:
        try:
            await client.get("/things")
            answered.append("")
        except TrackerError as error:
            answered.append(error.kind)

    async with anyio.create_task_group() as tasks:
        for _ in range(30):
            tasks.start_soon(ask)
    assert len(server.asked) == answered.count("") == 10
    assert answered.count(TrackerError.RATE_LIMITED) == 20
    await client.aclose()


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("https://tracker.example.com", ""),
        ("https://tracker.example.com:8443/jira", ""),
        ("http://127.0.0.1:4600", ""),
        ("http://localhost", ""),
        ("http://[::1]:8080", ""),
        ("http://tracker.example.com", "https"),
        ("http://127.0.0.1.evil.example", "https"),
        ("tracker.example.com", "address"),
        ("ftp://tracker.example.com", "address"),
        ("https://", "address"),
        ("https://[broken", "address"),
        ("https://host:port", "address"),
        ("https://me:secret@tracker.example.com", "plain"),
        ("https://tracker.example.com/?a=b", "plain"),
        ("https://tracker.example.com/#x", "plain"),
    ],
)
def test_a_key_goes_only_to_an_address_where_nobody_reads_it(endpoint, problem):
    found = endpoint_problem(endpoint)
    assert (problem in found) if problem else (found == "")
