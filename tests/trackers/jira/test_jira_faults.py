"""A Jira that refuses, stalls, breaks off or talks nonsense: a defined error each time, and no secret in any."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from sortie.errors import TrackerError
from sortie.trackers.jira.jira import JiraTracker
from tests import npm
from tests.servers.jira_fake import (
    EMAIL,
    KEY,
    TOKEN,
    Exchange,
    JiraFake,
    answers,
    breaks_off,
    cut_short,
    drops,
    waits,
)

from .conftest import MakeTracker

pytestmark = [pytest.mark.anyio, npm.TIME_TO_INSTALL]

CALLS: dict[str, Callable[[JiraTracker], Awaitable[Any]]] = {
    "candidates": lambda tracker: tracker.fetch_candidates(),
    "issue": lambda tracker: tracker.fetch_issue("10001"),
    "states": lambda tracker: tracker.fetch_states(["10001"]),
    "transition": lambda tracker: tracker.transition("10001", "Done"),
    "comment": lambda tracker: tracker.comment("10001", "hello"),
}
ECHO = {"errorMessages": [f"You sent {KEY}, that is {base64.b64encode(KEY.encode()).decode()}, or {TOKEN}"]}
KINDS = {
    400: TrackerError.PAYLOAD,
    401: TrackerError.AUTH,
    403: TrackerError.AUTH,
    # Nothing at all is found, the project neither: that is no news about an issue.
    404: TrackerError.AUTH,
    410: TrackerError.AUTH,
    429: TrackerError.RATE_LIMITED,
    500: TrackerError.API,
    503: TrackerError.API,
}


async def failing(call: Awaitable[Any]) -> TrackerError:
    with pytest.raises(TrackerError) as failure:
        await call
    return failure.value


@pytest.mark.parametrize("status", KINDS)
@pytest.mark.parametrize("name", CALLS)
async def test_each_refusal_has_its_kind_and_no_secret(
    jira: JiraFake, tracker: JiraTracker, name: str, status: int
) -> None:
    jira.store.add()
    jira.fault("", answers(status, ECHO), times=100)
    error = await failing(CALLS[name](tracker))
    assert error.kind == KINDS[status]
    for secret in (KEY, TOKEN, base64.b64encode(KEY.encode()).decode()):
        assert secret not in str(error)
    assert "[redacted]" in str(error)


@pytest.mark.parametrize("deed", [drops, breaks_off])
@pytest.mark.parametrize("name", CALLS)
async def test_a_connection_that_breaks_is_a_transport_error(
    jira: JiraFake, tracker: JiraTracker, name: str, deed: Any
) -> None:
    jira.store.add()
    jira.fault("", deed, times=100)
    error = await failing(CALLS[name](tracker))
    assert (error.kind, error.passing) == (TrackerError.TRANSPORT, True)


@pytest.mark.parametrize("name", ["candidates", "issue", "states"])
async def test_what_is_only_read_is_asked_again(jira: JiraFake, tracker: JiraTracker, name: str) -> None:
    """Also where reading is a POST."""
    jira.store.add()
    jira.fault("", drops)
    jira.fault("", answers(503))
    assert await CALLS[name](tracker)


@pytest.mark.parametrize("name", ["candidates", "issue", "states", "transition"])
async def test_half_an_answer_is_no_answer(jira: JiraFake, tracker: JiraTracker, name: str) -> None:
    jira.store.add()
    jira.fault("", cut_short, after=True)
    assert (await failing(CALLS[name](tracker))).kind == TrackerError.PAYLOAD


@pytest.mark.parametrize("body", [b"", b"<html>Login</html>", b"[]", b"7", b'"x"', b'{"issues": 1}', b"\xff\xfe"])
async def test_nonsense_is_a_payload_error(jira: JiraFake, tracker: JiraTracker, body: bytes) -> None:
    jira.fault("", answers(200, body), times=100)
    for name in ("candidates", "issue"):
        assert (await failing(CALLS[name](tracker))).kind == TrackerError.PAYLOAD


async def test_a_limit_holds_all_calls_until_it_ends(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.store.add()
    jira.fault("search", answers(429, b"", Retry_After="120", RateLimit_Reason="jira-burst-based"))
    before = time.time()
    error = await failing(tracker.fetch_candidates())
    assert error.kind == TrackerError.RATE_LIMITED
    assert error.until is not None
    assert before + 118 <= error.until <= time.time() + 122
    assert (await failing(tracker.comment("10001", "x"))).kind == TrackerError.RATE_LIMITED
    assert len(jira.calls()) == 1
    assert tracker.call_use().held_until == error.until


async def test_our_own_budget_is_kept(jira: JiraFake, make: MakeTracker) -> None:
    jira.store.add()
    tracker = make(calls_per_minute=8)
    for _ in range(6):
        await tracker.fetch_candidates()
    error = await failing(tracker.fetch_candidates())
    assert (error.kind, len(jira.calls())) == (TrackerError.RATE_LIMITED, 6)
    assert "tracker.calls_per_minute" in str(error)
    assert (await failing(tracker.fetch_issue("10002"))).kind == TrackerError.NOT_FOUND


async def test_a_call_that_is_given_up_leaves_the_tracker_usable(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.store.add()
    reached, release = threading.Event(), threading.Event()

    def deed(exchange: Exchange) -> None:
        reached.set()
        waits(release)(exchange)

    jira.fault("search", deed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tracker.fetch_candidates)
        assert await anyio.to_thread.run_sync(reached.wait, 50)
        tasks.cancel_scope.cancel()
    release.set()
    assert len((await tracker.fetch_candidates()).issues) == 1


async def test_an_address_where_nobody_listens_is_a_transport_error(make: MakeTracker) -> None:
    error = await failing(make(endpoint="http://127.0.0.1:9").fetch_candidates())
    assert error.kind == TrackerError.TRANSPORT


async def test_a_wrong_key_is_an_auth_error_that_says_what_to_check(jira: JiraFake, make: MakeTracker) -> None:
    error = await failing(make(api_key=f"{EMAIL}:another-secret-token").fetch_candidates())
    assert error.kind == TrackerError.AUTH
    assert "tracker.api_key" in str(error)
    assert "another-secret-token" not in str(error)


async def test_an_account_that_must_solve_a_puzzle_is_told_so(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.fault("", answers(403, b"", X_Seraph_LoginReason="AUTHENTICATION_DENIED"))
    error = await failing(tracker.fetch_candidates())
    assert error.kind == TrackerError.AUTH
    assert "CAPTCHA" in str(error)


async def test_a_token_of_an_app_is_sent_as_bearer(make: MakeTracker, jira: JiraFake) -> None:
    jira.key = "eyJhbGciOiJ-app-token"
    jira.store.add()
    assert len((await make(api_key=" eyJhbGciOiJ-app-token\n").fetch_candidates()).issues) == 1
    jira.fault("", answers(401, {"errorMessages": ["Bad token eyJhbGciOiJ-app-token"]}))
    assert "app-token" not in str(await failing(make(api_key="eyJhbGciOiJ-app-token").fetch_candidates()))


async def test_an_answer_that_comes_byte_by_byte_is_read(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.store.add()

    def slowly(exchange: Any) -> None:
        exchange.is_spoiled = True
        content = exchange.content
        exchange.connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        for at in range(len(content)):
            exchange.connection.sendall(content[at : at + 1])

    jira.fault("search", slowly, after=True)
    assert len((await tracker.fetch_candidates()).issues) == 1
