"""What `sortie doctor` hears about Jira: what is missing, by name, found by reading only."""

from __future__ import annotations

from typing import Any

import pytest

from tests import npm
from tests.servers.jira_fake import TOKEN, JiraFake, answers

from .conftest import MakeTracker

pytestmark = [pytest.mark.anyio, npm.TIME_TO_INSTALL]

ALL = {"handoff_state": "In Review", "in_progress_state": "In Progress"}


async def found(make: MakeTracker, **more: Any) -> list[tuple[str, str, str]]:
    return [
        (each.verdict, each.name, f"{each.detail} {each.fix}") for each in await make(**{**ALL, **more}).examine()
    ]


async def test_all_is_well(jira: JiraFake, make: MakeTracker) -> None:
    assert await found(make) == [
        ("PASS", "access", "logged in to Jira as Sortie Bot "),
        ("PASS", "project", 'PROJ, "Project PROJ" '),
        ("PASS", "states", "Jira knows every state that the workflow names "),
        ("PASS", "permissions", "the account may read, comment and move issues "),
        ("PASS", "blockers", 'issues are held back by links of the type "Blocks" '),
    ]
    assert len(jira.calls("GET")) == len(jira.calls()) == 5


async def test_without_access_nothing_else_is_asked(jira: JiraFake, make: MakeTracker) -> None:
    ((verdict, name, text),) = await found(make, api_key="ann@example.com:wrong-token")
    assert (verdict, name) == ("FAIL", "access")
    assert "Client must be authenticated" in text
    assert "tracker.api_key" in text
    assert len(jira.calls()) == 1


async def test_who_leaves_out_the_email_before_a_token_is_told_so(jira: JiraFake, make: MakeTracker) -> None:
    ((verdict, name, text),) = await found(make, api_key=TOKEN)
    assert (verdict, name) == ("FAIL", "access")
    assert text.endswith("with that of a person write `email:token`.")
    assert TOKEN not in text
    ((_, _, text),) = await found(make, api_key=f"ann@example.com:{TOKEN}")
    assert "email:token" not in text


@pytest.mark.parametrize("status", [404, 302])
async def test_an_address_that_is_no_site_of_jira(jira: JiraFake, make: MakeTracker, status: int) -> None:
    """Atlassian answers for every name, also for one that is misspelt."""
    jira.fault("", answers(status, b"<html>Your Atlassian site is unavailable</html>"))
    ((verdict, name, text),) = await found(make)
    assert (verdict, name) == ("FAIL", "access")
    assert text.endswith("Check tracker.endpoint: there is no Jira Cloud at that address.")


async def test_a_project_that_nobody_sees(jira: JiraFake, make: MakeTracker) -> None:
    (_, (verdict, name, text)) = await found(make, project="NOPE")
    assert (verdict, name) == ("FAIL", "project")
    assert "No project could be found with key 'NOPE'" in text
    assert "Browse projects" in text


async def test_a_project_that_is_archived(jira: JiraFake, make: MakeTracker) -> None:
    jira.store.projects["PROJ"] = True
    (_, (verdict, _, text)) = await found(make)
    assert (verdict, "is archived" in text) == ("FAIL", True)


async def test_a_project_that_has_another_key_now(jira: JiraFake, make: MakeTracker) -> None:
    jira.store.projects = {"NEW": False}
    jira.store.renamed["PROJ"] = "NEW"
    (_, (verdict, _, text)) = await found(make)
    assert verdict == "FAIL"
    assert "is called NEW now. Set tracker.project to that key." in text


async def test_states_that_jira_does_not_know(jira: JiraFake, make: MakeTracker) -> None:
    active, terminal = ("todo", "Doing"), ("Done", "Cancelled")
    results = await found(make, active_states=active, terminal_states=terminal, handoff_state="Review")
    assert [(verdict, text.partition(".")[0]) for verdict, name, text in results if name == "states"] == [
        ("FAIL", 'Jira knows no state "Doing" in this project'),
        ("FAIL", 'Jira knows no state "Review" in this project'),
        ("WARN", 'Jira knows no state "Cancelled" in this project'),
    ]
    assert all(
        "The states of PROJ are: Todo, In Progress, In Review, Done." in text
        for _, name, text in results
        if name == "states"
    )


@pytest.mark.parametrize(
    ("missing", "more", "verdict"),
    [
        ("BROWSE_PROJECTS", {}, "FAIL"),
        ("ADD_COMMENTS", {}, "WARN"),
        ("TRANSITION_ISSUES", {}, "FAIL"),
        ("TRANSITION_ISSUES", {"handoff_state": "", "in_progress_state": ""}, "WARN"),
    ],
)
async def test_permissions_that_are_missing_are_named(
    jira: JiraFake, make: MakeTracker, missing: str, more: dict[str, Any], verdict: str
) -> None:
    jira.permissions.discard(missing)
    *_, last, _ = await found(make, **more)
    assert last[:2] == (verdict, "permissions")
    assert missing.replace("_", " ").lower() in last[2].lower()


async def test_a_call_that_fails_is_a_finding(jira: JiraFake, make: MakeTracker) -> None:
    jira.fault("statuses", answers(500), times=10)
    jira.fault("mypermissions", answers(200, b"[]"))
    results = await found(make)
    assert [(verdict, name) for verdict, name, _ in results[2:4]] == [("FAIL", "states"), ("FAIL", "permissions")]


async def test_a_type_of_links_that_jira_does_not_have(jira: JiraFake, make: MakeTracker) -> None:
    *_, (verdict, name, text) = await found(make, options={"blocking_link": "Depends"})
    assert (verdict, name) == ("FAIL", "blockers")
    assert 'Jira has no type of links "Depends": no issue would be held back.' in text
    assert "Set jira.blocking_link to one of: Duplicate, Blocks." in text
    assert (await found(make, options={"blocking_link": "blocks"}))[-1][0] == "PASS"


@pytest.mark.parametrize(("options", "verdict"), [({}, "WARN"), ({"blocking_link": "Blocks"}, "FAIL")])
async def test_a_site_without_links(
    jira: JiraFake, make: MakeTracker, options: dict[str, str], verdict: str
) -> None:
    """Who has not asked for any need not care."""
    jira.fault("issueLinkType", answers(404))
    *_, (said, name, text) = await found(make, options=options)
    assert (said, name) == (verdict, "blockers")
    assert "linking" in text
