"""The broker: calls reach the orchestrator over a private socket, and only those of the run."""

from __future__ import annotations

import json
import socket
import stat
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sortie.errors import SortieError
from sortie.tools import broker_client
from sortie.tools.broker_server import Broker
from sortie.tools.calls import Cancellation

TOKEN = "0123456789abcdef"


@asynccontextmanager
async def serving(path, handler, token: str = TOKEN):
    async with anyio.create_task_group() as group:
        await group.start(Broker(token, handler).serve, path)
        yield
        group.cancel_scope.cancel()


async def echo(tool: str, arguments: object) -> dict[str, Any]:
    return {"success": True, "data": [tool, arguments]}


async def ask(path, arguments: object = None, **changes: Any) -> dict[str, Any]:
    known = {"token": TOKEN, "tool": "tracker_api", "cancellation": Cancellation(), **changes}
    return await to_thread.run_sync(partial(broker_client.call, str(path), arguments=arguments, **known))


async def say(path, data: bytes) -> bytes:
    """Raw bytes there, all bytes back."""
    with broker_client.short_path(str(path)) as name:
        stream = await anyio.connect_unix(name)
    answer = b""
    async with stream:
        await stream.send(data)
        with anyio.fail_after(30):
            try:
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return answer


@pytest.fixture
def path(tmp_path):
    return tmp_path / "brokers" / "run.sock"


async def test_a_call_reaches_the_handler_and_its_answer_comes_back(path):
    async with serving(path, echo):
        assert await ask(path, {"a": "ü"}) == {"success": True, "data": ["tracker_api", {"a": "ü"}]}


async def test_many_calls_are_answered_at_once(path):
    together = anyio.Event()
    waiting = 0

    async def meet(tool: str, arguments: object) -> dict[str, Any]:
        nonlocal waiting
        waiting += 1
        if waiting == 20:
            together.set()
        await together.wait()
        return {"success": True, "data": arguments}

    answers: list[Any] = []

    async def one(number: int) -> None:
        answers.append((await ask(path, number))["data"])

    async with serving(path, meet), anyio.create_task_group() as calls:
        for number in range(20):
            calls.start_soon(one, number)
    assert sorted(answers) == list(range(20))


async def test_more_callers_than_slots_wait_their_turn(path):
    answers: list[Any] = []

    async def one(number: int) -> None:
        line = json.dumps({"token": TOKEN, "tool": "t", "arguments": number}).encode() + b"\n"
        answers.append(json.loads(await say(path, line))["data"][1])

    async with serving(path, echo), anyio.create_task_group() as calls:
        for number in range(200):
            calls.start_soon(one, number)
    assert sorted(answers) == list(range(200))


async def test_large_answers_arrive_whole(path):
    async def much(tool: str, arguments: object) -> dict[str, Any]:
        return {"success": True, "data": "x" * 3_000_000}

    async with serving(path, much):
        assert len((await ask(path))["data"]) == 3_000_000


async def test_only_the_owner_can_reach_the_socket(path):
    async with serving(path, echo):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


async def test_a_folder_that_others_can_enter_is_refused(path):
    path.parent.mkdir()
    path.parent.chmod(0o755)
    with pytest.raises(SortieError, match="chmod 700"):
        await Broker(TOKEN, echo).serve(path)


async def test_a_socket_that_a_dead_orchestrator_left_is_replaced(path):
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with serving(path, echo):
        assert (await ask(path))["success"]


@pytest.mark.parametrize("what", ["socket", "folder"])
async def test_what_an_agent_puts_in_the_place_of_the_socket_is_no_error(path, what):
    """EXT-01: the broker ends as if nothing were."""
    async with serving(path, echo):
        path.unlink()
        if what == "socket":
            path.mkdir()
        else:
            path.parent.rmdir()
            path.parent.touch()


async def test_an_answer_that_is_no_json_is_an_internal_error_and_ends_nothing(path):
    """EXT-07: a tracker of somebody else's may put anything into an issue."""

    async def odd(tool: str, arguments: object) -> dict[str, Any]:
        return {"success": True, "data": object() if arguments else None}

    async with serving(path, odd):
        assert (await ask(path, "odd"))["error"]["kind"] == "internal_error"
        assert (await ask(path))["success"]


async def test_a_path_longer_than_a_socket_name_works(tmp_path):
    path = tmp_path / ("a" * 100) / ("b" * 100) / "run.sock"
    async with serving(path, echo):
        assert (await ask(path))["success"]
    assert not path.exists()


@pytest.mark.parametrize("token", ["", "0123456789abcdeX", "ü", "\ud800"])
async def test_a_wrong_token_is_refused(path, token):
    async with serving(path, echo):
        assert (await ask(path, token=token))["error"]["kind"] == "tracker_auth_error"


def test_a_broker_without_a_token_is_a_mistake():
    with pytest.raises(ValueError):
        Broker("", echo)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"[]\n",
        b"\xff\n",
        b"{}\n",
        b'{"token": 5, "tool": "t", "arguments": {}}\n',
        b"[" * 100_000 + b"\n",
        b"x" * (1024 * 1024 + 10) + b"\n",
    ],
)
async def test_a_bad_line_is_answered_and_harms_nobody(path, line):
    async with serving(path, echo):
        answer = await say(path, line)
        # What is refused before it is read to its end may be cut off by the system.
        assert not answer or json.loads(answer)["error"]["kind"] == "invalid_input"
        assert answer or len(line) > 1024 * 1024
        assert (await ask(path))["success"]


async def test_a_caller_who_says_nothing_and_leaves_harms_nobody(path):
    async with serving(path, echo):
        with broker_client.short_path(str(path)) as name:
            await (await anyio.connect_unix(name)).aclose()
        assert (await ask(path))["success"]


async def test_a_handler_that_fails_is_an_internal_error_without_its_words(path):
    async def fail(tool: str, arguments: object) -> dict[str, Any]:
        raise RuntimeError("private")

    async with serving(path, fail):
        answer = await ask(path)
    assert answer["error"]["kind"] == "internal_error"
    assert "private" not in json.dumps(answer)


async def test_arguments_that_are_too_large_are_not_sent(path):
    answer = await ask(path, "x" * 1024 * 1024)
    assert answer["error"]["kind"] == "invalid_input"


async def test_without_an_orchestrator_it_is_a_transport_error(path, tmp_path):
    assert (await ask(path))["error"]["kind"] == "tracker_transport_error"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    assert (await ask(tmp_path / "left"))["error"]["kind"] == "tracker_transport_error"


async def test_an_orchestrator_that_does_not_answer_is_a_transport_error(path):
    async def hang(tool: str, arguments: object) -> dict[str, Any]:
        await anyio.sleep_forever()
        return {}

    async with serving(path, hang):
        answer = await ask(path, deadline=0.05)
    assert answer["error"] == {
        "kind": "tracker_transport_error",
        "message": "The orchestrator cannot be asked: it did not answer within 0.05 s.",
    }


@pytest.mark.parametrize("answer", [b"", b"half a li", b"nonsense\n", b"[]\n"])
async def test_an_answer_that_is_none_is_a_transport_error(tmp_path, answer):
    async with await anyio.create_unix_listener(tmp_path / "s") as listener, anyio.create_task_group() as group:

        async def answer_oddly() -> None:
            async with await listener.accept() as stream:
                await stream.receive()
                await stream.send(answer)

        group.start_soon(answer_oddly)
        assert (await ask(tmp_path / "s"))["error"]["kind"] == "tracker_transport_error"


async def test_a_cancelled_call_ends_at_both_ends(path):
    began, ended = anyio.Event(), anyio.Event()

    async def hang(tool: str, arguments: object) -> dict[str, Any]:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return {}

    cancellation = Cancellation()
    async with serving(path, hang), anyio.create_task_group() as group:
        group.start_soon(partial(ask, path, cancellation=cancellation))
        with anyio.fail_after(30):
            await began.wait()
            cancellation.request()
            await ended.wait()


async def test_the_sidecar_forwards_tracker_calls_and_needs_no_workflow(project, path):
    project.workflow.unlink()
    variables = {"SORTIE_BROKER": str(path), "SORTIE_BROKER_TOKEN": TOKEN}
    with project.start(**variables) as sidecar:
        async with serving(path, echo):
            arguments = {"operation": "search_issues"}
            answer = await to_thread.run_sync(sidecar.call, "tracker_api", arguments)
            assert answer == {"success": True, "data": ["tracker_api", arguments]}
        gone = await to_thread.run_sync(sidecar.call, "tracker_api", arguments)
        assert gone["error"]["kind"] == "tracker_transport_error"
        assert TOKEN not in json.dumps(gone)
        assert sidecar.names() == ["tracker_api", "sortie_status", "workspace_history"]


async def test_a_sidecar_started_by_hand_uses_the_broker_too(project, path):
    project.workflow.unlink()
    with project.start(SORTIE_BROKER=str(path), SORTIE_BROKER_TOKEN=TOKEN, SORTIE_TOOLS=None) as sidecar:
        assert "tracker_api" in sidecar.names()
