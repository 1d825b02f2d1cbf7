"""What `sortie doctor` finds out about a repository on GitHub, by reading only."""

from __future__ import annotations

from typing import Any

import pytest

from sortie.core.model import Finding
from sortie.errors import TrackerError
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import REPOSITORY
from tests.servers.fault_proxy import Answer, bad_credentials, refused, secondary_limit
from tests.servers.github_scene import GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

LABELS = ("Todo", "In Progress", "In Review", "Done", "Wontfix")


async def examined(scene: GitHubScene, **fields: Any) -> dict[str, Finding]:
    tracker = scene.tracker(**fields)
    try:
        found = await tracker.examine()
    finally:
        await tracker.aclose()
    assert {asked.method for asked in scene.server.asked()} <= {"GET"}
    return {finding.name: finding for finding in found}


async def test_a_repository_with_all_it_takes_passes(scene: GitHubScene) -> None:
    scene.open("Task", *LABELS)
    scene.overlay.headers = {"x-oauth-scopes": "repo, read:org"}
    found = await examined(scene)
    assert {finding.verdict for finding in found.values()} == {"PASS"}
    assert REPOSITORY in found["GitHub repository"].detail


async def test_labels_that_are_not_there_yet_are_named(scene: GitHubScene) -> None:
    scene.open("Task", "TODO", "done")
    found = (await examined(scene))["GitHub labels"]
    assert (found.verdict, found.fix) == ("WARN", "They are created when first used.")
    assert "In Progress, Wontfix, In Review" in found.detail


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        ({"archived": True}, "archived"),
        ({"has_issues": False}, "switched off"),
        ({"permissions": {"pull": True, "triage": False, "push": False}}, "neither label nor close"),
    ],
)
async def test_what_stands_in_the_way_is_named(scene: GitHubScene, repository: dict[str, Any], words: str) -> None:
    scene.overlay.repository = repository
    found = (await examined(scene))["GitHub repository"]
    assert found.verdict == "FAIL"
    assert words in found.detail
    assert found.fix


async def test_who_may_label_but_not_create_labels_is_told_to_create_them(scene: GitHubScene) -> None:
    scene.overlay.repository = {"permissions": {"triage": True, "push": False}}
    found = await examined(scene)
    assert found["GitHub repository"].verdict == "PASS"
    assert "Create them" in found["GitHub labels"].fix


async def test_a_token_of_an_installation_has_no_role_and_needs_none(scene: GitHubScene) -> None:
    scene.open("Task", "Todo")
    found = await examined(scene, api_key="ghs_0123456789abcdef")
    assert found["GitHub repository"].verdict == "PASS"
    assert found["GitHub labels"].fix == "They are created when first used."


@pytest.mark.parametrize(
    ("scopes", "private", "verdict"),
    [
        ("read:org", False, "FAIL"),
        ("public_repo", False, ""),
        ("public_repo", True, "FAIL"),
        ("repo", True, ""),
        ("", True, ""),
    ],
)
async def test_the_scopes_of_a_classic_token_have_to_be_enough(
    scene: GitHubScene, scopes: str, private: bool, verdict: str
) -> None:
    scene.overlay.headers = {"x-oauth-scopes": scopes}
    scene.overlay.repository = {"private": private}
    found = (await examined(scene)).get("GitHub token")
    assert (found.verdict if found else "") == verdict


@pytest.mark.parametrize(
    ("on", "answer", "name", "fix"),
    [
        (".*", bad_credentials(), "GitHub repository", "tracker.api_key"),
        (".*", refused(404, "Not Found"), "GitHub repository", "tracker.project"),
        (
            ".*/issues.*",
            refused(403, "Resource not accessible by personal access token"),
            "GitHub issues",
            "Issues: read and write",
        ),
        (".*/issues.*", refused(410, "Issues are disabled for this repo"), "GitHub issues", "tracker.project"),
    ],
)
async def test_a_refusal_says_what_is_missing(
    scene: GitHubScene, on: str, answer: Answer, name: str, fix: str
) -> None:
    scene.server.fail(on, answer, times=99)
    found = (await examined(scene))[name]
    assert (found.verdict, fix in found.fix) == ("FAIL", True)


async def test_a_limit_is_no_finding_about_the_repository(scene: GitHubScene) -> None:
    scene.server.fail(".*", secondary_limit(), times=99)
    with pytest.raises(TrackerError) as failure:
        await examined(scene)
    assert failure.value.kind == TrackerError.RATE_LIMITED
