"""What Redmine refuses, or never answers; and what is found out before anything runs."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from redmine_tracker import RedmineTracker

from sortie import TrackerError, TrackerSettings

pytestmark = pytest.mark.anyio

GOOD = {"endpoint": "https://redmine.example.com/sub", "api_key": "k", "project": "demo"}


async def refused(call):
    with pytest.raises(TrackerError) as failure:
        await call
    return failure.value


async def test_a_key_that_nobody_knows_is_refused_and_not_shown(redmine, project, connect):
    issue_id = redmine.issue(project)
    tracker = connect(project, api_key="not-the-key-of-anybody")
    for call in (tracker.fetch_candidates(), tracker.fetch_issue(issue_id), tracker.comment(issue_id, "x")):
        error = await refused(call)
        assert error.kind == TrackerError.AUTH
        assert "not-the-key" not in str(error)


async def test_an_issue_that_is_hidden_from_the_key_is_gone_and_the_key_is_not_to_blame(redmine, project, connect):
    """The service goes on: only this issue cannot be worked on."""
    hidden = redmine.project()
    issue_id = redmine.issue(hidden)
    member = redmine("GET", f"/projects/{hidden}/memberships.json", by="admin")["memberships"]
    (mine,) = [each["id"] for each in member if each["user"]["id"] == redmine.users["sortie"]["id"]]
    redmine("DELETE", f"/memberships/{mine}.json", by="admin")
    tracker = connect(project)
    for call in (
        tracker.fetch_issue(issue_id),
        tracker.transition(issue_id, "Done"),
        tracker.comment(issue_id, "x"),
    ):
        assert (await refused(call)).kind == TrackerError.NOT_FOUND


@pytest.mark.parametrize("issue_id", ["0", "-1", "9999999", "99999999999999999999", "1/../2", "1.5", "", "٣"])
async def test_what_is_no_issue_is_not_found(project, issue_id, connect):
    tracker = connect(project)
    for call in (
        tracker.fetch_issue(issue_id),
        tracker.transition(issue_id, "Done"),
        tracker.comment(issue_id, "x"),
    ):
        assert (await refused(call)).kind == TrackerError.NOT_FOUND
    assert await tracker.fetch_states([issue_id]) == {}


async def test_a_project_that_does_not_exist_is_not_found(connect):
    tracker = connect("nowhere")
    assert (await refused(tracker.fetch_candidates())).kind == TrackerError.NOT_FOUND


async def test_a_server_that_is_not_there_is_told_so(connect):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    tracker = connect("demo", endpoint=address)
    error = await refused(tracker.comment("1", "hello"))
    assert error.kind == TrackerError.TRANSPORT
    assert "Redmine cannot be reached" in str(error)


async def test_a_comment_whose_fate_is_unknown_is_sent_once(connect):
    """Redmine may have written the note and failed afterwards; a look is tried again, a note is not."""
    asked = []

    class Failing(BaseHTTPRequestHandler):
        def do_PUT(self):
            asked.append(self.command)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_error(502)

        do_GET = do_PUT  # noqa: N815

        def log_message(self, *_):
            """Not printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        tracker = connect("demo", endpoint=f"http://127.0.0.1:{server.server_port}")
        assert (await refused(tracker.comment("1", "hello"))).passing
        assert (await refused(tracker.fetch_issue("1"))).passing
        await tracker.aclose()
        server.shutdown()
    assert asked == ["PUT", "GET", "GET", "GET"]


# -- before anything runs ---------------------------------------------------------------------------------------


async def findings(tracker):
    return [(each.verdict, f"{each.name}: {each.detail} {each.fix}") for each in await tracker.examine()]


async def test_the_doctor_finds_all_well(redmine, project, connect):
    found = await findings(connect(project, handoff_state="in review"))
    assert [verdict for verdict, _ in found] == ["PASS", "PASS"]
    assert redmine.users["sortie"]["login"] in found[0][1]
    assert "may read, move and comment; 2 members" in found[1][1]


async def test_the_doctor_names_statuses_that_do_not_exist(project, connect):
    found = await findings(connect(project, handoff_state="Reveiw", in_progress_state="Doing"))
    failed = [text for verdict, text in found if verdict == "FAIL"]
    assert ["Doing" in failed[0], "Reveiw" in failed[1], "In Review" in failed[1]] == [True, True, True]


async def test_the_doctor_names_what_the_key_may_not_do(redmine, project, connect):
    ours = redmine.project(is_public=True)
    members = redmine("GET", f"/projects/{ours}/memberships.json", by="admin")["memberships"]
    (mine,) = [each["id"] for each in members if each["user"]["id"] == redmine.users["sortie"]["id"]]
    role = {"membership": {"role_ids": [redmine.roles["Reporter"]]}}
    redmine("PUT", f"/memberships/{mine}.json", role, by="admin")
    verdict, text = (await findings(connect(ours)))[-1]
    assert (verdict, "lacks the permissions edit_issues" in text) == ("FAIL", True)


async def test_the_doctor_names_a_wrong_key_and_a_wrong_project(redmine, project, connect):
    ((verdict, text),) = await findings(connect(project, api_key="wrong"))
    assert (verdict, "401" in text, "REST must be enabled" in text) == ("FAIL", True, True)
    (_, (verdict, text)) = await findings(connect("nowhere"))
    assert (verdict, "404" in text, "Check tracker.project" in text) == ("FAIL", True, True)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"endpoint": ""}, "tracker.endpoint"),
        ({"endpoint": "redmine.example.com"}, "tracker.endpoint"),
        ({"endpoint": "http://redmine.example.com"}, "tracker.endpoint"),
        ({"endpoint": "https://ann:secret@redmine.example.com"}, "tracker.endpoint"),
        ({"api_key": ""}, "tracker.api_key"),
        ({"project": ""}, "tracker.project"),
        ({"project": "42"}, "tracker.project"),
        ({"project": "My Project"}, "tracker.project"),
        ({"project": "a/../b"}, "tracker.project"),
        ({"query_filter": "assignee=me"}, "tracker.query_filter"),
        ({"query_filter": "status_id=*"}, "tracker.query_filter"),
        ({"query_filter": "query_id=3"}, "tracker.query_filter"),
        ({"query_filter": "key=abc"}, "tracker.query_filter"),
        ({"query_filter": "tracker_id="}, "tracker.query_filter"),
        ({"query_filter": "tracker_id=1&tracker_id=2"}, "tracker.query_filter"),
        ({"query_filter": "only mine"}, "tracker.query_filter"),
        ({"options": {"colour": "red"}}, "redmine.colour"),
    ],
)
async def test_settings_that_cannot_work_are_named(said, key):
    found = RedmineTracker.check(TrackerSettings(kind="redmine", active_states=("Todo",), **{**GOOD, **said}))
    assert {name for name, _ in found} == {key}
    assert all(sentence.endswith(".") and "secret" not in sentence for _, sentence in found)


@pytest.mark.parametrize("query_filter", ["", "tracker_id=1&assigned_to_id=me", "cf_12=yes&subject=~paint"])
async def test_settings_that_work_are_fine(query_filter):
    settings = TrackerSettings(kind="redmine", active_states=("Todo",), query_filter=query_filter, **GOOD)
    assert RedmineTracker.check(settings) == []
