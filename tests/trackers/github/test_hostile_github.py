"""A GitHub that means harm, or somebody in its place: bounded, printable, and no token where people read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortie.errors import TrackerError
from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.github.records import read_record
from sortie.trackers.tracker import TrackerSettings
from tests.servers.fault_proxy import refused
from tests.servers.github_scene import GitHubScene
from tests.servers.scripted import Answer, ScriptedServer

from .test_app import app_tracker

pytestmark = pytest.mark.anyio

TOKEN = "ghp_0123456789abcdef"


def settings_for(server: ScriptedServer, **fields: Any) -> TrackerSettings:
    given: dict[str, Any] = {
        "kind": "github",
        "project": "octo/hello",
        "api_key": TOKEN,
        "endpoint": server.url,
        **fields,
    }
    return TrackerSettings(active_states=("Todo",), terminal_states=("Done",), **given)


async def test_more_records_than_were_asked_for_are_not_read() -> None:
    """A page of thirty megabytes has a million of them, and each would be remembered."""
    with ScriptedServer.running() as server:
        one = b'{"number":%d,"title":"t","state":"open","labels":["Todo"]}'
        server.usual = Answer(body=b"[" + b",".join(one % number for number in range(1, 5000)) + b"]")
        tracker = GitHubTracker.from_settings(settings_for(server))
        with pytest.raises(TrackerError) as failure:
            await tracker.fetch_candidates()
        await tracker.aclose()
    assert failure.value.kind == TrackerError.PAYLOAD


@pytest.mark.parametrize("owner", ["\x1b[2Jevil", "a b", "x" * 5000, "\uff4fcto", "octo\n"])
def test_a_repository_of_which_no_name_can_be_is_none(owner: str) -> None:
    """It would be part of the identifiers that people and agents are shown."""
    raw = {"number": 1, "title": "t", "state": "open", "repository_url": f"https://api.github.com/repos/{owner}/r"}
    assert read_record(raw, "octo/hello").repository == "octo/hello"


def test_a_key_with_a_space_is_refused_before_it_is_used() -> None:
    with ScriptedServer.running() as server:
        (found,) = GitHubTracker.check(settings_for(server, api_key=f"{TOKEN} "))
    assert found[0] == "tracker.api_key"
    assert TOKEN not in found[1]


def test_settings_are_shown_without_their_key() -> None:
    with ScriptedServer.running() as server:
        settings = settings_for(server)
    assert TOKEN not in f"{settings!r} {settings} {settings.__rich_repr__()}"


async def test_the_token_of_before_is_in_no_error_either(scene: GitHubScene, tmp_path: Path) -> None:
    """While an App gets its next token, calls with the last one are still under way."""
    number = str(scene.open("Task", "Todo"))
    tracker = app_tracker(scene, tmp_path)
    await tracker.fetch_candidates()
    app = scene.overlay.app
    assert app
    (first,) = app.given
    app.revoked = {first}
    await tracker.fetch_issue(number)
    scene.server.fail("POST .*/comments", refused(422, f"I know {first}"))
    with pytest.raises(TrackerError) as failure:
        await tracker.comment(number, "Hello.")
    assert first not in str(failure.value)
    await tracker.aclose()
