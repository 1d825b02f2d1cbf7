"""What a workflow may say about Jira: wrong settings are named before anything is asked, and names stay names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.plugins import load_tracker
from sortie.trackers.jira import jql
from sortie.trackers.jira.jira import JiraTracker
from sortie.trackers.jira.settings import endpoint_of
from tests.servers.jira_jql import JqlError, search, string_value
from tests.servers.jira_store import JiraStore

from .conftest import settings

SITE = "https://your-domain.atlassian.net"


def problems(**more: Any) -> dict[str, str]:
    return dict(JiraTracker.check(settings(more.pop("endpoint", SITE), **more)))


def test_it_is_the_tracker_of_its_kind() -> None:
    assert load_tracker("jira") is JiraTracker
    assert JiraTracker.trusted_by_default == ("@atlassian",)


def test_good_settings_have_no_problems() -> None:
    assert problems() == {}
    assert problems(endpoint="https://api.atlassian.com/ex/jira/1-2-3", api_key="abc.def") == {}
    assert problems(api_key=" ann@example.com:ATATT3xFf_-z=1A:2\n") == problems(api_key="ATSTT3xFf_-z=1A2") == {}
    assert problems(options={"blocking_link": "Depends"}, query_filter='labels = agent AND text ~ "order by"') == {}
    assert problems(active_states=()) == {}
    ids = ("5b10a2844c20165700ede21g", "557058:f58131cb-b67d-43c7-b30d-6b58d40bd077", "@Atlassian", "@app")
    assert problems(trusted_authors=ids, excluded_authors=("Ann Smith",)) == {}


@pytest.mark.parametrize(
    ("more", "key", "words"),
    [
        ({"endpoint": ""}, "tracker.endpoint", "missing"),
        ({"endpoint": "http://your-domain.atlassian.net"}, "tracker.endpoint", "https://"),
        ({"endpoint": "your-domain.atlassian.net"}, "tracker.endpoint", "address of a server"),
        ({"endpoint": "https://ann:pw@your-domain.atlassian.net"}, "tracker.endpoint", "plain address"),
        ({"project": ""}, "tracker.project", "missing"),
        ({"project": "proj"}, "tracker.project", "capitals"),
        ({"project": 'P" OR project = "X'}, "tracker.project", "key of a project"),
        ({"project": "PROJ-1"}, "tracker.project", "key of a project"),
        ({"api_key": " "}, "tracker.api_key", "missing"),
        ({"api_key": "a@b.c:to\nken"}, "tracker.api_key", "one line"),
        ({"api_key": "two words"}, "tracker.api_key", "email:token"),
        ({"api_key": "tökén"}, "tracker.api_key", "email:token"),
        ({"api_key": "ann@example.com"}, "tracker.api_key", "email:token"),
        ({"api_key": "ann@example.com:"}, "tracker.api_key", "email:token"),
        ({"api_key": ":to-ken"}, "tracker.api_key", "email:token"),
        ({"api_key": "ann@example.com: to-ken"}, "tracker.api_key", "email:token"),
        ({"query_filter": "labels = a ORDER  BY created"}, "tracker.query_filter", "ORDER BY"),
        ({"query_filter": "labels = a) OR (labels = b"}, "tracker.query_filter", "parentheses"),
        ({"query_filter": "(labels = a"}, "tracker.query_filter", "parentheses"),
        ({"query_filter": 'labels = "a'}, "tracker.query_filter", "quotation mark"),
        ({"query_filter": "labels = 'a\\'"}, "tracker.query_filter", "quotation mark"),
        ({"trusted_authors": ("@atlassian", "ann@example.com")}, "tracker.trusted_authors", '"ann@example.com"'),
        ({"trusted_authors": ("Ann Smith",)}, "tracker.trusted_authors", "account id"),
        ({"trusted_authors": ("atlassian",)}, "tracker.trusted_authors", "account id"),
        ({"trusted_authors": ("@MEMBER",)}, "tracker.trusted_authors", "@customer"),
        ({"options": {"blocking_link": ""}}, "jira.blocking_link", "name of a link type"),
        ({"options": {"blocking_link": ["a"]}}, "jira.blocking_link", "name of a link type"),
        ({"options": {"blocking_links": "x"}}, "jira.blocking_links", "not an option"),
    ],
)
def test_bad_settings_are_named(more: dict[str, Any], key: str, words: str) -> None:
    found = problems(**more)
    assert [*found] == [key]
    assert words in found[key]
    assert found[key].endswith(".")
    assert "ken" not in found[key].replace("token", "")


@pytest.mark.parametrize(
    ("given_as", "used"),
    [
        (f"{SITE}/", SITE),
        (f" {SITE}/rest/api/3/", SITE),
        (f"{SITE}/rest/api/2", SITE),
        (f"{SITE}/rest", SITE),
        ("https://api.atlassian.com/ex/jira/1-2-3/rest/api/3", "https://api.atlassian.com/ex/jira/1-2-3"),
        ("https://proxy.example/restricted", "https://proxy.example/restricted"),
    ],
)
def test_the_path_of_the_api_is_ours_to_add(given_as: str, used: str) -> None:
    assert endpoint_of(settings(given_as)) == used


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_name_is_one_string_of_jql(name: str) -> None:
    literal = jql.quoted(name)
    assert string_value(literal) == name
    assert "\n" not in literal


NAMES = st.text(st.sampled_from("ab\"'\\() \n=,") | st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(
    st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower), st.sampled_from(["", "labels = x", "labels != x"])
)
def test_the_search_means_just_the_states_that_it_names(names: list[str], narrowed: str) -> None:
    """Whatever their names hold: nothing of them becomes a part of the question."""
    store = JiraStore()
    store.states = dict.fromkeys([*names, "other"], "To Do")
    issues = [store.add(status=state, labels=["x"]) for state in store.states]
    store.add(status=names[0], project="OTHER", labels=["x"])
    known = {"project": ["PROJ", "OTHER"], "status": [*store.states], "labels": ["x"]}
    wanted = {issue.id for issue in issues if issue.status.lower() in {name.lower() for name in names}}
    found = search(jql.candidates("PROJ", names, narrowed), [*store.issues.values()], known)
    assert {issue.id for issue in found} == (set() if "!=" in narrowed else wanted)


@given(
    st.lists(
        st.sampled_from(['"', "'", "\\", "(", ")", "order", " by ", "labels", "=", "x", " "]), max_size=12
    ).map("".join)
)
def test_a_filter_that_is_accepted_stays_inside_its_parentheses(text: str) -> None:
    """Whatever else it is: it adds a condition, or Jira refuses it."""
    store = JiraStore()
    inside = store.add(labels=["x"])
    store.add(project="OTHER", labels=["x"])
    store.add(status="Done", labels=["x"])
    if jql.filter_problem(text):
        return
    known = {"project": ["PROJ", "OTHER"], "status": [*store.states], "labels": ["x"]}
    try:
        found = search(jql.candidates("PROJ", ["Todo"], text), [*store.issues.values()], known)
    except JqlError:
        return
    assert found in ([], [inside])
