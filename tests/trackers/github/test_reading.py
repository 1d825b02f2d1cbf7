"""Reading issues from GitHub: what they become, how many calls it takes, and that nothing is left out silently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sortie.core.model import IssueRef
from sortie.errors import TrackerError
from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.github.listing import MOST_FOUND, PAGES_IN_A_LOOK
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import REPOSITORY
from tests.servers.fault_proxy import Answer, refused
from tests.servers.github_overlay import query_of
from tests.servers.github_scene import ISSUES, GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]


async def numbers(tracker: GitHubTracker) -> list[int]:
    return [int(issue.id) for issue in (await tracker.fetch_candidates()).issues]


async def test_an_issue_is_told_in_our_words(scene: GitHubScene) -> None:
    parent = scene.open("The whole")
    number = scene.open(
        "Add retry logic", "Todo", "Backend", body="The client gives up.", assignees=["bob", "ann"], by="ann"
    )
    scene.overlay.sub_issues[parent] = [f"{REPOSITORY}#{number}"]
    scene.overlay.associations["ann"] = "CONTRIBUTOR"
    scene.overlay.spoiled[number] = lambda record: {**record, "type": {"id": 1, "name": "Bug"}}
    tracker = scene.tracker()
    (issue,) = (await tracker.fetch_candidates()).issues
    record = scene.record(number)
    assert (issue.id, issue.identifier) == (str(number), f"{REPOSITORY}#{number}")
    assert (issue.title, issue.description, issue.state) == ("Add retry logic", "The client gives up.", "Todo")
    assert issue.labels == ("backend",), "a label that is a state is told as the state, and only there"
    assert (issue.assignee, issue.issue_type, issue.branch_name, issue.priority) == ("bob", "Bug", "", None)
    assert (issue.author, issue.author_id, issue.association) == ("ann", "ann", "CONTRIBUTOR")
    assert issue.url.endswith(f"/{REPOSITORY}/issues/{number}")
    assert issue.parent == IssueRef(str(parent), f"{REPOSITORY}#{parent}")
    assert issue.created_at[:19] == record["created_at"][:19]
    assert issue.comments is None
    await tracker.aclose()


async def test_only_issues_in_an_active_state_are_candidates_and_no_pull_request(scene: GitHubScene) -> None:
    todo = scene.open("a", "Todo")
    both = scene.open("b", "Todo", "In Progress")
    scene.open("c", "In Review")
    scene.open("d")
    closed = scene.open("e", "Todo")
    scene.edit(closed, state="closed")
    pull = scene.open("p", "Todo")
    scene.overlay.spoiled[pull] = lambda record: {**record, "pull_request": {"merged_at": None}}
    tracker = scene.tracker()
    assert await numbers(tracker) == [todo, both]
    found = await tracker.fetch_candidates()
    assert {issue.state for issue in found.issues} == {"Todo"}
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_issue(str(pull))
    assert failure.value.kind == TrackerError.NOT_FOUND
    assert await tracker.fetch_states([str(pull), str(todo)]) == {str(todo): "Todo"}
    await tracker.aclose()


async def test_with_open_among_the_active_states_issues_without_a_label_are_candidates(scene: GitHubScene) -> None:
    bare, labelled = scene.open("a"), scene.open("b", "Todo")
    scene.open("c", "In Review")
    tracker = scene.tracker(active_states=("open", "Todo"), in_progress_state="")
    assert await numbers(tracker) == [bare, labelled]
    assert len(scene.server.asked("GET .*")) == 1
    await tracker.aclose()


async def test_hundreds_of_issues_come_in_few_calls_and_unchanged_ones_for_nothing(scene: GitHubScene) -> None:
    """A look at 350 candidates takes as many calls as there are pages, and the next one has no body at all."""
    wanted = [scene.open(f"Task {n}", "Todo" if n % 2 else "In Progress") for n in range(350)]
    tracker = scene.tracker()
    first = await tracker.fetch_candidates()
    assert [int(issue.id) for issue in first.issues] == wanted
    assert first.changed is None
    assert len(scene.server.exchanges) == 4
    scene.server.forget()
    second = await tracker.fetch_candidates()
    assert second.changed == frozenset()
    assert [exchange.status for exchange in scene.server.exchanges] == [304] * 4
    assert (await tracker.fetch_candidates()) is second
    await tracker.aclose()


@pytest.mark.parametrize(
    ("fields", "place"),
    [({}, "issues"), ({"query_filter": "label:Todo"}, "search/issues")],
    ids=["list", "search"],
)
@pytest.mark.parametrize("header", ["with a link", "without"])
async def test_an_issue_that_comes_after_a_full_page_is_seen(
    scene: GitHubScene, fields: dict[str, str], place: str, header: str
) -> None:
    """The page before it is the same as ever, and so may be its tag; a server may say what follows, or may not."""
    wanted = [scene.open(f"Task {n}", "Todo") for n in range(100)]
    tracker = scene.tracker(active_states=("Todo",), in_progress_state="", **fields)
    assert await numbers(tracker) == wanted
    assert len(scene.server.exchanges) == 2, "a full page may have one after it"
    asked = scene.server.asked(f"GET .*{place}[?].*")[0]
    page = scene.server.answer(asked)
    scene.server.forget()
    assert (await tracker.fetch_candidates()).changed == frozenset()
    assert [exchange.status for exchange in scene.server.exchanges] == [304, 304]
    wanted.append(scene.open("One more", "Todo"))
    next_link = f'<{scene.server.url}{asked.path}&page=2>; rel="next"'
    link = {"link": next_link} if header == "with a link" else {}
    tag = {"etag": page.headers["etag"]}
    scene.server.fail(f"GET .*{place}[?](?!.*[?&]page=2).*", Answer(304, b"", {**tag, **link}))
    found = await tracker.fetch_candidates()
    assert [int(issue.id) for issue in found.issues] == wanted
    assert found.changed == frozenset({str(wanted[-1])})
    await tracker.aclose()


async def test_a_list_that_has_just_as_much_as_a_look_reads_is_complete(scene: GitHubScene) -> None:
    for n in range(PAGES_IN_A_LOOK * 100):
        scene.open(f"Task {n}", "Todo")
    tracker = scene.tracker(active_states=("Todo",), in_progress_state="")
    found = await tracker.fetch_candidates()
    assert (len(found.issues), found.problems) == (PAGES_IN_A_LOOK * 100, ())
    assert len(scene.server.exchanges) == PAGES_IN_A_LOOK
    await tracker.aclose()


async def test_what_changed_is_named_and_the_rest_is_the_same_object(scene: GitHubScene) -> None:
    one, two, three = (scene.open(f"Task {n}", "Todo") for n in range(3))
    tracker = scene.tracker()
    before = await tracker.fetch_candidates()
    scene.edit(two, title="Another")
    scene.edit(three, labels=["In Review"])
    four = scene.open("New", "Todo")
    found = await tracker.fetch_candidates()
    assert found.changed == frozenset({str(two), str(three), str(four)})
    assert found.issues[0] is before.issues[0]
    assert [issue.id for issue in found.issues] == [str(one), str(two), str(four)]
    await tracker.aclose()


async def test_what_is_beyond_the_last_page_of_a_look_is_reported(scene: GitHubScene) -> None:
    pages = PAGES_IN_A_LOOK
    for n in range(pages * 100 + 1):
        scene.open(f"Task {n}", "Todo")
    few = scene.open("Few of these", "In Progress")
    tracker = scene.tracker()
    found = await tracker.fetch_candidates()
    assert len(scene.server.exchanges) == pages
    assert str(few) in {issue.id for issue in found.issues}  # a long list does not hide a short one
    (problem,) = found.problems
    assert "2000" in problem and "are missing" in problem
    again = await tracker.fetch_candidates()
    assert (again.changed, again.problems) == (frozenset(), found.problems)
    await tracker.aclose()


def without(key: str) -> Any:
    return lambda record: {name: value for name, value in record.items() if name != key}


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (without("title"), "has no title"),
        (lambda record: {**record, "title": "  "}, "has no title"),
        (lambda record: {**record, "title": 7}, "has no title"),
        (lambda record: {**record, "state": "half"}, "neither open nor closed"),
        (without("number"), "has no number"),
        (lambda record: {**record, "number": "7"}, "has no number"),
        (lambda record: {**record, "number": -7}, "has no number"),
        (lambda _: None, "is no object"),
        (lambda _: ["a", "list"], "is no object"),
    ],
)
async def test_a_record_that_cannot_be_used_is_named_and_hides_no_other(
    scene: GitHubScene, spoil: Any, problem: str
) -> None:
    bad, good = scene.open("Bad", "Todo"), scene.open("Good", "Todo")
    scene.overlay.spoiled[bad] = spoil
    tracker = scene.tracker()
    found = await tracker.fetch_candidates()
    assert [issue.id for issue in found.issues] == [str(good)]
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    await tracker.aclose()


@pytest.mark.parametrize(
    "odd",
    [
        {"user": None, "labels": ["Todo", {"name": "Bug"}, {"name": None}, 5, None], "assignees": None},
        {"body": None, "type": None, "assignee": None, "milestone": None, "author_association": None},
        {"parent_issue_url": "https://elsewhere.example/no/issue", "html_url": None, "comments": "many"},
        {
            "issue_dependencies_summary": None,
            "sub_issues_summary": {"total": "x"},
            "updated_at": 12,
            "created_at": None,
        },
        {"title": "x" * 100_000, "body": "\u0000\u001b[31m" * 1000},
    ],
)
async def test_what_is_odd_in_a_record_counts_as_not_given(scene: GitHubScene, odd: dict[str, Any]) -> None:
    number = scene.open("Odd", "Todo")
    scene.overlay.spoiled[number] = lambda record: {**record, **odd}
    tracker = scene.tracker()
    found = await tracker.fetch_candidates()
    assert [(issue.id, issue.state) for issue in found.issues] == [(str(number), "Todo")]
    assert found.problems == ()
    if "user" in odd:
        assert found.issues[0].author == "ghost"
    await tracker.fetch_issue(str(number))
    await tracker.aclose()


async def test_a_filter_asks_the_search_and_keeps_to_the_repository(scene: GitHubScene) -> None:
    wanted = [scene.open(f"Task {n}", "Todo", "agent") for n in range(120)]
    scene.open("Not ours", "Todo")
    scene.open("Not active", "agent")
    tracker = scene.tracker(query_filter="label:agent")
    assert await numbers(tracker) == wanted
    first = scene.server.asked("GET /search/issues.*")[0]
    assert query_of(first)["q"] == f"repo:{REPOSITORY} is:issue state:open label:agent"
    assert query_of(first)["advanced_search"] == "true"
    assert len(scene.server.exchanges) == 2
    await tracker.aclose()


async def test_a_search_that_finds_more_than_github_shows_of_it_is_reported(scene: GitHubScene) -> None:
    """No link leads beyond the first thousand."""
    for n in range(MOST_FOUND):
        scene.open(f"Task {n}", "Todo")
    tracker = scene.tracker(query_filter="label:Todo")
    assert (await tracker.fetch_candidates()).problems == ()
    scene.overlay.search = {"total_count": MOST_FOUND + 1}
    found = await tracker.fetch_candidates()
    (problem,) = found.problems
    assert len(found.issues) == MOST_FOUND
    assert "1000" in problem and "are missing" in problem
    assert len(scene.server.exchanges) == 2 * MOST_FOUND // 100
    await tracker.aclose()


async def test_a_filter_with_an_or_stays_within_the_repository(scene: GitHubScene) -> None:
    """Without brackets GitHub reads it as: these of our repository, or those of any."""
    number = scene.open("Ours", "Todo")
    record = scene.record(number)
    place = "https://api.github.com/repos/some/where"
    foreign = {**record, "number": number + 1, "repository_url": place, "url": f"{place}/issues/{number + 1}"}
    body = json.dumps({"total_count": 2, "incomplete_results": False, "items": [foreign, record]}).encode()
    scene.server.fail("GET /search/.*", Answer(200, body))
    tracker = scene.tracker(query_filter="label:Todo OR label:agent")
    assert await numbers(tracker) == [number]
    assert query_of(scene.server.asked()[0])["q"].endswith("(label:Todo OR label:agent)")
    await tracker.aclose()


@pytest.mark.parametrize("wanted", ["label:a OR\nlabel:b", "label:a\nOR label:b", "(label:a)OR(label:b)", "a or b"])
async def test_an_or_is_found_wherever_it_stands(scene: GitHubScene, wanted: str) -> None:
    tracker = scene.tracker(query_filter=wanted)
    await tracker.fetch_candidates()
    assert query_of(scene.server.asked()[0])["q"].endswith(f" ({wanted})")
    await tracker.aclose()


async def test_a_search_that_github_did_not_complete_is_reported(scene: GitHubScene) -> None:
    scene.open("Task", "Todo")
    scene.overlay.search = {"incomplete_results": True}
    tracker = scene.tracker(query_filter="label:Todo")
    found = await tracker.fetch_candidates()
    assert len(found.issues) == 1
    assert "incomplete" in found.problems[0]
    await tracker.aclose()


@pytest.mark.parametrize(
    "issue_id", ["nobody", "", "0", "-1", "1/../2", "1?x=1", "٣", "1 ", "9" * 30, "a/b#1", "#x"]
)
async def test_what_is_no_number_of_an_issue_is_not_asked_for(scene: GitHubScene, issue_id: str) -> None:
    tracker = scene.tracker()
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_issue(issue_id)
    assert failure.value.kind == TrackerError.NOT_FOUND
    assert await tracker.fetch_states([issue_id]) == {}
    assert scene.server.asked() == []
    await tracker.aclose()


async def test_an_issue_is_known_by_its_full_name_too(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    for name in (str(number), f"{REPOSITORY}#{number}", f"{REPOSITORY.upper()}#{number}", f"#{number}"):
        assert (await tracker.fetch_issue(name)).id == str(number)
        assert await tracker.fetch_states([name]) == {name: "Todo"}
    await tracker.aclose()


async def test_a_deleted_or_transferred_issue_is_not_found(scene: GitHubScene) -> None:
    deleted, moved, present = (scene.open(f"Task {n}", "Todo") for n in range(3))
    scene.overlay.gone.add(deleted)
    scene.overlay.moved.add(moved)
    tracker = scene.tracker()
    for number in (deleted, moved):
        with pytest.raises(TrackerError) as failure:
            await tracker.fetch_issue(str(number))
        assert failure.value.kind == TrackerError.NOT_FOUND
    assert await tracker.fetch_states([str(deleted), str(moved), str(present)]) == {str(present): "Todo"}
    await tracker.aclose()


async def test_states_of_many_issues_take_few_calls(scene: GitHubScene) -> None:
    ids = [str(scene.open(f"Task {n}", "Todo")) for n in range(110)]
    scene.edit(int(ids[5]), state="closed")
    tracker = scene.tracker()
    states = await tracker.fetch_states(ids)
    assert states == {issue_id: "Done" if issue_id == ids[5] else "Todo" for issue_id in ids}
    assert len(scene.server.exchanges) == 11  # one page of those changed last, and the rest each by itself
    await tracker.aclose()


async def test_one_issue_that_github_cannot_show_does_not_blind_the_rest(scene: GitHubScene) -> None:
    one, two = (str(scene.open(f"Task {n}", "Todo")) for n in range(2))
    tracker = scene.tracker()
    assert await tracker.fetch_states([one, two]) == {one: "Todo", two: "Todo"}
    scene.edit(int(two), labels=["In Progress"])
    scene.server.fail(f"GET {ISSUES}/{one}", refused(500), times=99)
    assert await tracker.fetch_states([one, two]) == {one: "Todo", two: "In Progress"}
    with pytest.raises(TrackerError):
        await tracker.fetch_states([one])  # nothing was learned at all
    other = scene.tracker()
    with pytest.raises(TrackerError):
        await other.fetch_states([one, two])  # it is not known, and must not look as if it were gone
    await tracker.aclose()
    await other.aclose()


async def test_a_repository_that_cannot_be_seen_any_more_makes_no_issue_vanish(scene: GitHubScene) -> None:
    """GitHub answers 404 to both; to believe it of the issues would end every run."""
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    scene.server.fail(f"GET /repos/{REPOSITORY}.*", refused(404, "Not Found"), times=99)
    for call in (tracker.fetch_states([number]), tracker.fetch_issue(number), tracker.fetch_candidates()):
        with pytest.raises(TrackerError) as failure:
            await call
        assert failure.value.kind == TrackerError.AUTH
        assert REPOSITORY in str(failure.value)
    await tracker.aclose()
