"""Access as a GitHub App: signed for, renewed in time, and no key or token in anything that people read."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from sortie.errors import TrackerError
from sortie.trackers.github.github import GitHubTracker
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import NAME, REPOSITORY
from tests.servers.fault_proxy import Answer, refused
from tests.servers.github_overlay import AppAtGitHub
from tests.servers.github_scene import ISSUES, GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
TOKENS = "POST /app/.*"


def pem(key: Any, encryption: KeySerializationEncryption | None = None) -> bytes:
    written: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, encryption or NoEncryption())
    return written


def app_tracker(scene: GitHubScene, folder: Path, key: bytes | None = None, **options: Any) -> GitHubTracker:
    scene.overlay.app = scene.overlay.app or AppAtGitHub("123", KEY.public_key())
    (folder / "app.pem").write_bytes(pem(KEY) if key is None else key)
    given = {"app_id": 123, "private_key_path": "app.pem", **options}
    return scene.tracker(api_key="", options=given, base=folder)


async def test_an_app_reads_and_writes_with_one_token(scene: GitHubScene, tmp_path: Path) -> None:
    numbers = [str(scene.open(f"Task {n}", "Todo")) for n in range(10)]
    tracker = app_tracker(scene, tmp_path)
    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(tracker.transition, number, "In Progress")
    assert len((await tracker.fetch_candidates()).issues) == 10
    assert len(scene.server.asked(TOKENS)) == 1
    assert len(scene.server.asked("GET .*/installation")) == 1
    await tracker.aclose()


async def test_an_installation_that_is_named_is_not_looked_up(scene: GitHubScene, tmp_path: Path) -> None:
    scene.open("Task", "Todo")
    tracker = app_tracker(scene, tmp_path, installation_id=77)
    assert len((await tracker.fetch_candidates()).issues) == 1
    assert scene.server.asked("GET .*/installation") == []
    await tracker.aclose()


async def test_a_token_reaches_this_repository_alone_and_may_do_there_no_more_than_is_needed(
    scene: GitHubScene, tmp_path: Path
) -> None:
    """Whatever else the App is installed for: an agent that gets hold of the token gets no further."""
    number = scene.open("Task", "Todo")
    tracker = app_tracker(scene, tmp_path)
    assert scene.overlay.app
    scene.overlay.app.permissions = {"issues": "write", "metadata": "read", "contents": "write"}
    scene.overlay.app.repositories = [NAME, "other"]
    await tracker.transition(str(number), "In Progress")
    assert {finding.name for finding in await tracker.examine() if finding.verdict == "FAIL"} == set()
    (asked,) = scene.server.asked(TOKENS)
    assert json.loads(asked.body) == {
        "repositories": [NAME],
        "permissions": {"issues": "write", "metadata": "read"},
    }
    await tracker.aclose()


async def test_an_installation_elsewhere_is_told_as_no_installation_here(
    scene: GitHubScene, tmp_path: Path
) -> None:
    scene.open("Task", "Todo")
    tracker = app_tracker(scene, tmp_path, installation_id=77)
    assert scene.overlay.app
    scene.overlay.app.repositories = ["other"]
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert failure.value.kind == TrackerError.AUTH
    assert f"not installed for {REPOSITORY}" in str(failure.value)
    await tracker.aclose()


async def test_an_installation_that_lacks_a_permission_still_does_what_it_may(
    scene: GitHubScene, tmp_path: Path
) -> None:
    """Of this repository alone, all the same."""
    scene.open("Task", "Todo")
    tracker = app_tracker(scene, tmp_path)
    assert scene.overlay.app
    scene.overlay.app.permissions = {"issues": "read", "metadata": "read"}
    assert len((await tracker.fetch_candidates()).issues) == 1
    assert [json.loads(asked.body)["repositories"] for asked in scene.server.asked(TOKENS)] == [[NAME]] * 2
    await tracker.aclose()


async def test_a_token_is_renewed_before_it_ends(scene: GitHubScene, tmp_path: Path) -> None:
    scene.open("Task", "Todo")
    tracker = app_tracker(scene, tmp_path)
    assert scene.overlay.app
    scene.overlay.app.lasts = 299.0
    await tracker.fetch_candidates()
    before = len(scene.server.asked(TOKENS))
    await tracker.fetch_candidates()
    assert len(scene.server.asked(TOKENS)) > before
    scene.overlay.app.lasts = 3600.0
    await tracker.fetch_candidates()
    lasting = len(scene.server.asked(TOKENS))
    await tracker.fetch_candidates()
    assert len(scene.server.asked(TOKENS)) == lasting
    await tracker.aclose()


async def test_a_token_that_is_not_accepted_any_more_is_renewed_once(scene: GitHubScene, tmp_path: Path) -> None:
    number = scene.open("Task", "Todo")
    tracker = app_tracker(scene, tmp_path)
    await tracker.fetch_candidates()
    app = scene.overlay.app
    assert app
    app.revoked = {*app.given}
    await tracker.comment(str(number), "Still here.")
    assert [comment["body"] for comment in scene.comments(number)] == ["Still here."]
    scene.server.forget()
    scene.server.fail("GET .*/issues.*", refused(401, "Bad credentials"), times=99)
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_issue(str(number))
    assert failure.value.kind == TrackerError.AUTH
    assert len(scene.server.asked(TOKENS)) == 1
    await tracker.aclose()


async def test_a_refusal_that_comes_late_costs_nobody_the_token_of_after_it(
    scene: GitHubScene, tmp_path: Path
) -> None:
    late, other = (str(scene.open(title, "Todo")) for title in ("Late", "Other"))
    tracker = app_tracker(scene, tmp_path)
    await tracker.fetch_candidates()
    app = scene.overlay.app
    assert app
    app.revoked = {*app.given}
    is_asked, is_renewed = threading.Event(), threading.Event()

    def refuses_late(line: socket.socket) -> None:
        is_asked.set()
        is_renewed.wait(20)
        line.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}")

    scene.server.fail(f"GET {ISSUES}/{late}", Answer(deed=refuses_late))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tracker.fetch_issue, late)
        await anyio.to_thread.run_sync(is_asked.wait)
        await tracker.fetch_issue(other)
        is_renewed.set()
    assert len(app.given) == 2
    await tracker.aclose()


async def test_an_app_that_is_not_installed_makes_no_issue_vanish(scene: GitHubScene, tmp_path: Path) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = app_tracker(scene, tmp_path)
    assert scene.overlay.app
    scene.overlay.app.is_installed = False
    for call in (tracker.fetch_states([number]), tracker.fetch_issue(number)):
        with pytest.raises(TrackerError) as failure:
            await call
        assert failure.value.kind == TrackerError.AUTH
        assert "not installed" in str(failure.value)
    scene.overlay.app.is_installed = True
    assert await tracker.fetch_states([number]) == {number: "Todo"}
    await tracker.aclose()


def other_keys() -> dict[str, bytes]:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return {
        "of another App": pem(other),
        "empty": b"",
        "no key": b"-----BEGIN RSA PRIVATE KEY-----\nnonsense\n-----END RSA PRIVATE KEY-----\n",
        "binary": bytes(range(256)) * 8,
        "with a password": pem(KEY, BestAvailableEncryption(b"secret")),
        "of another kind": pem(ec.generate_private_key(ec.SECP256R1())),
    }


@pytest.mark.parametrize("case", other_keys())
async def test_a_key_that_is_wrong_is_one_sentence_without_the_key(
    scene: GitHubScene, tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    key = other_keys()[case]
    tracker = app_tracker(scene, tmp_path, key)
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert failure.value.kind == TrackerError.AUTH
    assert "key" in str(failure.value)
    body = b"".join(key.splitlines()[1:2]).decode("latin-1")
    told = " ".join([str(failure.value), repr(failure.value.__cause__), caplog.text])
    assert not body or body not in told
    await tracker.aclose()


async def test_a_key_that_vanished_is_one_sentence(scene: GitHubScene, tmp_path: Path) -> None:
    tracker = app_tracker(scene, tmp_path)
    (tmp_path / "app.pem").unlink()
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert (failure.value.kind, "cannot be read" in str(failure.value)) == (TrackerError.AUTH, True)
    await tracker.aclose()


async def test_no_token_of_an_app_is_in_an_error(scene: GitHubScene, tmp_path: Path) -> None:
    tracker = app_tracker(scene, tmp_path)
    await tracker.fetch_candidates()
    assert scene.overlay.app
    token = scene.overlay.app.given[-1]
    scene.server.fail(".*", refused(403, f"The token {token} may not do that"), times=99)
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert "may not do that" in str(failure.value)
    assert token not in str(failure.value) + repr(failure.value.__cause__)
    await tracker.aclose()


async def test_doctor_judges_an_app_by_its_permissions_and_not_by_a_role(
    scene: GitHubScene, tmp_path: Path
) -> None:
    scene.open("Task", "Todo", "In Progress", "In Review", "Done", "Wontfix")
    tracker = app_tracker(scene, tmp_path)
    assert {finding.verdict for finding in await tracker.examine()} == {"PASS"}
    await tracker.aclose()


@pytest.mark.parametrize(
    ("permissions", "missing"),
    [
        ({"metadata": "read"}, "issues: write"),
        ({"metadata": "read", "issues": "read"}, "issues: write"),
        ({"issues": "write"}, "metadata: read"),
        ({}, "issues: write, metadata: read"),
    ],
)
async def test_doctor_names_the_permissions_that_an_app_lacks(
    scene: GitHubScene, tmp_path: Path, permissions: dict[str, str], missing: str
) -> None:
    tracker = app_tracker(scene, tmp_path)
    assert scene.overlay.app
    scene.overlay.app.permissions = permissions
    (found,) = [finding for finding in await tracker.examine() if finding.verdict == "FAIL"]
    assert found.name == "GitHub App"
    assert missing in found.detail
    assert found.fix
    await tracker.aclose()


@pytest.mark.parametrize(
    "answer", [b"{}", b'{"token": 5, "expires_at": "x"}', b'{"token": "t", "expires_at": null}']
)
async def test_an_answer_without_a_token_is_an_error(scene: GitHubScene, tmp_path: Path, answer: bytes) -> None:
    tracker = app_tracker(scene, tmp_path)
    scene.server.fail(TOKENS, Answer(201, answer), times=9)
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert "no token" in str(failure.value)
    await tracker.aclose()


def test_without_the_package_for_keys_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    """In a Python of its own, in which there is no such package."""
    (tmp_path / "app.pem").write_bytes(pem(KEY))
    code = f"""
import sys, anyio
sys.modules["cryptography.hazmat.primitives.asymmetric"] = None
from pathlib import Path
from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.tracker import TrackerSettings
settings = TrackerSettings(
    kind="github", project={REPOSITORY!r}, active_states=("Todo",), endpoint="http://127.0.0.1:9",
    options={{"app_id": 1, "private_key_path": "app.pem"}}, base=Path({str(tmp_path)!r}),
)
async def main():
    try:
        await GitHubTracker.from_settings(settings).fetch_candidates()
    except Exception as error:
        print(error)
anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'sortie-orchestrator[github-app]'" in done.stdout
