"""What the Jira tracker tells of issues, and what it asks Jira for it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from sortie.core.model import Blocker, IssueRef
from sortie.core.observe import fingerprint
from sortie.errors import TrackerError
from sortie.trackers.jira.jira import JiraTracker
from sortie.trackers.trust import judged_tracker
from tests import npm
from tests.servers.jira_fake import Exchange, JiraFake, answers
from tests.servers.jira_store import ANN, BOT, CUSTOMER, StoredIssue, paragraph

from .conftest import MakeTracker, settings

pytestmark = [pytest.mark.anyio, npm.TIME_TO_INSTALL]


def spoiled(change: Any) -> Any:
    """The true answer, but for what `change` does to the record of the first issue."""

    def deed(exchange: Exchange) -> None:
        change(exchange.answer["issues"][0])

    return deed


async def test_an_issue_is_told_in_all_its_parts(jira: JiraFake, tracker: JiraTracker) -> None:
    store = jira.store
    epic = store.add("The epic", "In Progress")
    issue = store.add(
        "Fix the build",
        description=paragraph("It fails.\nSince today."),
        priority="2",
        labels=["CI", "build"],
        assignee=BOT,
        creator=CUSTOMER,
        type="Bug",
        parent=epic.id,
    )
    blocker, other = store.add("First this", "In Review"), store.add("Not this")
    store.block(issue, blocker)
    store.block(issue, other, "Relates")
    store.block(other, issue)
    store.comment(issue, "Please hurry.", CUSTOMER)
    found = await tracker.fetch_issue(str(issue.id))
    assert (found.id, found.identifier, found.title, found.state) == ("10002", "PROJ-2", "Fix the build", "Todo")
    assert found.description == "It fails.\nSince today."
    assert (found.priority, found.labels, found.issue_type) == (2, ("ci", "build"), "Bug")
    assert (found.assignee, found.parent) == ("Sortie Bot", IssueRef("10001", "PROJ-1"))
    assert found.url == f"{jira.url}/browse/PROJ-2"
    assert found.blocked_by == (Blocker("10003", "PROJ-3", "In Review"),)
    assert (found.created_at, found.branch_name) == ("2026-03-20T08:00:02.000Z", "")
    assert found.updated_at > found.created_at
    assert (found.author, found.author_id, found.association) == ("Carl Customer", "qm:1234:carl", "customer")
    (comment,) = found.comments or ()
    assert (comment.author, comment.author_id, comment.association) == ("Carl Customer", "qm:1234:carl", "customer")
    assert (comment.body, comment.created_at) == ("Please hurry.", found.updated_at)
    listed = next(each for each in (await tracker.fetch_candidates()).issues if each.id == found.id)
    assert listed == replace(found, comments=None)
    assert await tracker.fetch_issue("PROJ-2") == found


async def test_the_link_that_blocks_can_have_another_name(jira: JiraFake, make: MakeTracker) -> None:
    issue, blocker = jira.store.add(), jira.store.add()
    jira.store.block(issue, blocker, "Depends")
    assert (await make().fetch_issue(str(issue.id))).blocked_by == ()
    tracker = make(options={"blocking_link": "depends"})
    assert [each.id for each in (await tracker.fetch_issue(str(issue.id))).blocked_by] == [str(blocker.id)]


async def test_what_jira_leaves_empty_is_empty(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add(creator=None, priority="urgent")

    def bare(exchange: Exchange) -> None:
        fields = exchange.answer["fields"]
        exchange.answer["fields"] = {"summary": None, "status": {"name": fields["status"]["name"]}}

    assert (await tracker.fetch_issue(str(issue.id))).priority is None
    jira.fault(r"GET .*/issue/10001\?", bare, after=True)
    found = await tracker.fetch_issue(str(issue.id))
    assert (found.title, found.description, found.labels, found.author, found.created_at) == ("", "", (), "", "")


async def test_a_look_costs_few_calls(jira: JiraFake, tracker: JiraTracker) -> None:
    """200 candidates, and 50 issues of which we hold something that are candidates no more."""
    issues = [jira.store.add() for _ in range(250)]
    for issue in issues[:50]:
        jira.store.move(issue, "In Review")
    await tracker.fetch_candidates()
    states = await tracker.fetch_states([str(issue.id) for issue in issues[:50]])
    assert set(states.values()) == {"In Review"}
    assert len(jira.calls()) == 3
    use = tracker.call_use()
    assert (use.made, use.per_minute) == (3, 10_000)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda record: record.pop("key"), "Issue 10001 cannot be used: .*`key`"),
        (lambda record: record.update(id=7), "Issue PROJ-1 cannot be used: .*`str`"),
        (lambda record: record["fields"].pop("status"), "Issue PROJ-1 cannot be used: it has no status"),
        (lambda record: record["fields"].update(labels="x"), "Issue PROJ-1 cannot be used"),
        (lambda record: record.clear(), "An issue cannot be used"),
        (lambda record: record.update(key="NEW-1"), "are called NEW-… now: set tracker.project"),
    ],
)
async def test_a_bad_record_spoils_no_other(jira: JiraFake, tracker: JiraTracker, change: Any, reason: str) -> None:
    jira.store.add("bad")
    good = jira.store.add("good")
    jira.fault("search/jql", spoiled(change), after=True)
    found = await tracker.fetch_candidates()
    assert [issue.id for issue in found.issues] == [str(good.id)]
    (problem,) = found.problems
    assert re.search(reason, problem)


async def test_a_document_nested_beyond_reason_spoils_no_other(jira: JiraFake, tracker: JiraTracker) -> None:
    bad, good = jira.store.add("bad"), jira.store.add("good")

    def nested(exchange: Exchange) -> None:
        deep = b'{"type":"blockquote","content":[' * 20_000 + b"]}" * 20_000
        exchange.raw = exchange.content.replace(b'"description": null', b'"description": ' + deep, 1)

    for where, look in (("search/jql", True), (f"GET .*/issue/{bad.id}\\?", False)):
        jira.fault(where, nested, after=True)
        if look:
            found = await tracker.fetch_candidates()
            assert {issue.id for issue in found.issues} == {str(bad.id), str(good.id)}
        else:
            assert (await tracker.fetch_issue(str(bad.id))).title == "bad"


async def test_what_changed_is_told(jira: JiraFake, tracker: JiraTracker) -> None:
    one, two, three = (jira.store.add() for _ in range(3))
    first = await tracker.fetch_candidates()
    second = await tracker.fetch_candidates()
    assert (first.changed, second.changed) == (None, frozenset())
    assert await tracker.fetch_candidates() is second
    one.summary = "Another"
    jira.store.move(two, "Done")
    four = jira.store.add()
    found = await tracker.fetch_candidates()
    assert found.changed == frozenset({str(one.id), str(two.id), str(four.id)})
    unchanged = {issue.id: issue for issue in second.issues}[str(three.id)]
    assert next(issue for issue in found.issues if issue.id == str(three.id)) is unchanged


async def test_a_filter_narrows_the_search(jira: JiraFake, make: MakeTracker) -> None:
    wanted = jira.store.add(labels=["agent"])
    jira.store.add(labels=["person"])
    jira.store.add(status="Done", labels=["agent"])
    tracker = make(query_filter=' labels = agent OR labels = "a)gent" ')
    with pytest.raises(TrackerError, match=r"The value 'a\)gent' does not exist for the field 'labels'") as failure:
        await tracker.fetch_candidates()
    assert failure.value.kind == TrackerError.PAYLOAD
    tracker = make(query_filter=' labels = agent OR labels IN ("agent") ')
    assert [issue.id for issue in (await tracker.fetch_candidates()).issues] == [str(wanted.id)]


async def test_without_active_states_all_that_is_not_done_is_active(jira: JiraFake, make: MakeTracker) -> None:
    jira.store.states = {**jira.store.states, "Rejected": "In Progress", 'Odd "\\ one': "To Do"}
    for state in jira.store.states:
        jira.store.add(state, state)
    tracker = make(active_states=(), terminal_states=("Done", "rejected", "Unknown to Jira"))
    found = await tracker.fetch_candidates()
    assert {issue.title for issue in found.issues} == {"Todo", "In Progress", "In Review", 'Odd "\\ one'}
    tracker = make(active_states=('odd "\\ ONE',))
    assert [issue.state for issue in (await tracker.fetch_candidates()).issues] == ['Odd "\\ one']


async def test_a_state_that_jira_does_not_know_is_its_own_words(jira: JiraFake, make: MakeTracker) -> None:
    with pytest.raises(TrackerError, match="The value 'Doing' does not exist for the field 'status'") as failure:
        await make(active_states=("Doing",)).fetch_candidates()
    assert failure.value.kind == TrackerError.PAYLOAD
    assert "Check tracker.active_states and tracker.query_filter" in str(failure.value)


async def test_what_no_issue_is_called_is_not_asked_for(jira: JiraFake, tracker: JiraTracker) -> None:
    names = ["", "nobody", "../myself", "1/comment", "PROJ-1?x=1", "PROJ-", "-1", "1" * 30, "٣", "PROJ-1 "]
    for name in names:
        with pytest.raises(TrackerError) as failure:
            await tracker.fetch_issue(name)
        assert failure.value.kind == TrackerError.NOT_FOUND
    assert await tracker.fetch_states(names) == {}
    assert jira.calls() == []


async def test_an_issue_that_left_the_project_is_not_there(jira: JiraFake, tracker: JiraTracker) -> None:
    issue, stays = jira.store.add(), jira.store.add()
    jira.store.to_project(issue, "OTHER")
    for name in (str(issue.id), "PROJ-1", "OTHER-1"):
        with pytest.raises(TrackerError, match="OTHER-1 is not in the project PROJ any more") as failure:
            await tracker.fetch_issue(name)
        assert failure.value.kind == TrackerError.NOT_FOUND
    assert await tracker.fetch_states([str(issue.id), str(stays.id)]) == {str(stays.id): "Todo"}
    with pytest.raises(TrackerError, match="not in the project"):
        await tracker.transition(str(issue.id), "Done")
    assert issue.status == "Todo"


async def test_states_are_asked_for_a_hundred_at_a_time(jira: JiraFake, tracker: JiraTracker) -> None:
    ids = [str(jira.store.add().id) for _ in range(250)]
    found = await tracker.fetch_states([*ids, *ids, "99999999"])
    assert found == dict.fromkeys(ids, "Todo")
    assert len(jira.calls("bulkfetch")) == 3
    # Of the one that is missing it takes a look at the project to know that it is gone.
    assert len(jira.calls()) == 4


async def test_an_issue_that_jira_cannot_read_just_now_is_not_gone(jira: JiraFake, tracker: JiraTracker) -> None:
    ids = [jira.store.add().id for _ in range(3)]
    jira.unreadable = {ids[1]}
    assert await tracker.fetch_states([str(each) for each in ids]) == dict.fromkeys(map(str, ids), "Todo")
    jira.fault(f"GET .*/issue/{ids[1]}", answers(404))
    assert await tracker.fetch_states([str(each) for each in ids]) == {str(ids[0]): "Todo", str(ids[2]): "Todo"}
    jira.fault("bulkfetch", answers(200, {"issues": [], "issueErrors": [{"errorMessage": "Try again"}]}))
    with pytest.raises(TrackerError, match="cannot read an issue just now: Try again"):
        await tracker.fetch_states([str(each) for each in ids])
    jira.fault(f"GET .*/issue/{ids[1]}", answers(403))
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_states([str(each) for each in ids])
    assert failure.value.kind == TrackerError.AUTH


def with_comments(jira: JiraFake, count: int) -> StoredIssue:
    issue = jira.store.add()
    for number in range(count):
        jira.store.comment(issue, f"number {number}", ANN)
    return issue


async def test_comments_come_in_pages_the_oldest_first(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = with_comments(jira, 230)
    found = await tracker.fetch_issue(str(issue.id))
    assert [comment.body for comment in found.comments or ()] == [f"number {number}" for number in range(230)]
    assert len(jira.calls("/comment")) == 3


async def test_a_customer_cannot_push_out_what_somebody_whose_word_counts_said(jira: JiraFake) -> None:
    """All comments are read that Jira lets an issue have, so none falls out at the beginning."""
    issue = with_comments(jira, 1)
    for number in range(598):
        jira.store.comment(issue, f"noise {number}", CUSTOMER)
    tracker = judged_tracker(JiraTracker, settings(jira.url))
    before = await tracker.fetch_issue(str(issue.id))
    jira.store.comment(issue, "more noise", CUSTOMER)
    after = await tracker.fetch_issue(str(issue.id))
    assert [len(found.comments or ()) for found in (before, after)] == [599, 600]
    assert fingerprint(before) == fingerprint(after)
    await tracker.aclose()


class Modest(JiraTracker):
    most_comments = 500


async def test_of_more_comments_than_jira_allows_the_newest_are_read(jira: JiraFake) -> None:
    """Which are the first of them moves in steps: a comment of ours does not make others vanish."""
    issue, tracker = with_comments(jira, 1030), Modest.from_settings(settings(jira.url))

    async def bodies() -> list[str]:
        return [comment.body for comment in (await tracker.fetch_issue(str(issue.id))).comments or ()]

    first = await bodies()
    assert first[:2] == ["[The first 500 comments are left out.]", "number 500"]
    assert first[-1] == "number 1029"
    assert len(first) > 500
    await tracker.comment(str(issue.id), "Mine.")
    assert await bodies() == [*first, "Mine."]
    await tracker.aclose()


async def test_what_is_no_comment_is_left_out(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = with_comments(jira, 2)

    def odd(exchange: Exchange) -> None:
        exchange.answer["comments"] += [7, {"id": 1}, {"id": "x", "author": None, "body": "plain"}]

    jira.fault("GET .*/comment", odd, after=True)
    found = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert [comment.body for comment in found] == ["number 0", "number 1", "plain"]


async def test_behind_the_gateway_addresses_are_those_of_the_site(jira: JiraFake, make: MakeTracker) -> None:
    """Scoped tokens are used at api.atlassian.com, where nobody can look at an issue."""
    issue = jira.store.add()
    tracker = make(endpoint=f"{jira.url}/ex/jira/1-2-3/rest/api/3/")
    jira.prefix = "/ex/jira/1-2-3"
    assert (await tracker.fetch_issue(str(issue.id))).url == "https://your-domain.atlassian.net/browse/PROJ-1"
    await tracker.fetch_candidates()
    assert len(jira.calls("serverInfo")) == 1
    refused = make(endpoint=f"{jira.url}/ex/jira/1-2-3")
    jira.fault("serverInfo", answers(403))
    assert (await refused.fetch_issue(str(issue.id))).url == ""


async def test_a_search_that_lags_does_not_show_what_we_moved_away(jira: JiraFake, tracker: JiraTracker) -> None:
    """However many they are: Jira takes 50 issues that it is to look at anew."""
    stays = jira.store.add()
    issues = [jira.store.add() for _ in range(60)]
    jira.store.is_late = True
    await tracker.transition(str(issues[0].id), "In Review")
    assert len((await tracker.fetch_candidates()).issues) == 60
    assert jira.requests[-1][2]["reconcileIssues"] == [issues[0].id]
    for issue in issues[1:]:
        await tracker.transition(str(issue.id), "In Review")
    assert [issue.id for issue in (await tracker.fetch_candidates()).issues] == [str(stays.id)]
    assert jira.requests[-1][2]["reconcileIssues"] == [issue.id for issue in issues[10:]]


async def test_a_record_of_one_issue_that_cannot_be_used_is_said(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    for body in (b"[]", b"null", b'{"id": "1"}', b"<html>", json.dumps({"id": "1", "key": "PROJ-1"}).encode()):
        jira.fault("GET .*/issue/", answers(200, body))
        with pytest.raises(TrackerError) as failure:
            await tracker.fetch_issue(str(issue.id))
        assert failure.value.kind == TrackerError.PAYLOAD
