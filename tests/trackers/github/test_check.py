"""Settings of the GitHub tracker: what is accepted, what is refused with a sentence, and where its API is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.github.settings import endpoint_of
from sortie.trackers.tracker import TrackerSettings


def settings(**fields: Any) -> TrackerSettings:
    given: dict[str, Any] = {
        "kind": "github",
        "project": "octocat/hello",
        "api_key": "ghp_0123456789",
        "active_states": ("todo",),
        "terminal_states": ("done",),
    }
    return TrackerSettings(**(given | fields))


def test_the_usual_settings_are_fine() -> None:
    assert GitHubTracker.check(settings()) == []
    assert GitHubTracker.check(settings(options={"sub_issues": "ignore"}, active_states=("open", "todo"))) == []
    assert GitHubTracker.check(settings(terminal_states=("closed",), project="My-Org/my.repo_1")) == []
    people = ("octocat", "some-bot[bot]", "ann_acme", "@MEMBER", "@owner", "@first_time_contributor")
    assert GitHubTracker.check(settings(trusted_authors=people)) == []


def test_an_app_needs_its_key_and_no_token(tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text("key")
    app = {"app_id": 12, "private_key_path": "app.pem"}
    assert GitHubTracker.check(settings(api_key="", options=app, base=tmp_path)) == []
    assert GitHubTracker.check(settings(api_key="", options={**app, "app_id": "Iv1.8a61"}, base=tmp_path)) == []


# No App, and no token either: to ask GitHub so would end in a sentence about the network.
BAD = (None, 0, "0", "", -1, 1.5)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"project": ""}, "tracker.project"),
        ({"project": "hello"}, "tracker.project"),
        ({"project": "https://github.com/octocat/hello"}, "tracker.project"),
        ({"project": "octocat/hello/x"}, "tracker.project"),
        ({"project": "octocat/.."}, "tracker.project"),
        ({"project": "octocat/hello?x=1"}, "tracker.project"),
        ({"project": "octo cat/hello"}, "tracker.project"),
        ({"project": "octocat/hello.git"}, "tracker.project"),
        ({"endpoint": "http://ghe.example.com"}, "tracker.endpoint"),
        ({"endpoint": "ghe.example.com"}, "tracker.endpoint"),
        ({"endpoint": "https://github.com/octocat/hello"}, "tracker.endpoint"),
        ({"endpoint": "https://api.github.com/repos/octocat/hello"}, "tracker.endpoint"),
        ({"endpoint": "https://user:pass@ghe.example.com"}, "tracker.endpoint"),
        ({"api_key": ""}, "tracker.api_key"),
        ({"api_key": "ghp_\n0123"}, "tracker.api_key"),
        ({"options": {"app_id": 1, "private_key_path": "a.pem"}}, "tracker.api_key"),
        ({"api_key": "", "options": {"app_id": 1}}, "github.private_key_path"),
        ({"api_key": "", "options": {"app_id": 1, "private_key_path": 5}}, "github.private_key_path"),
        ({"api_key": "", "options": {"app_id": 1, "private_key_path": "missing.pem"}}, "github.private_key_path"),
        ({"api_key": "", "options": {"private_key_path": "a.pem"}}, "github.app_id"),
        ({"options": {"app_id": True}}, "github.app_id"),
        *(({"options": {"app_id": bad, "private_key_path": __file__}}, "github.app_id") for bad in BAD),
        ({"api_key": "", "options": {"app_id": None, "private_key_path": "a.pem"}}, "github.app_id"),
        ({"options": {"installation_id": "x"}}, "github.installation_id"),
        ({"options": {"renamed_from": "hello"}}, "github.renamed_from"),
        ({"options": {"renamed_from": None}}, "github.renamed_from"),
        ({"options": {"sub_issues": "maybe"}}, "github.sub_issues"),
        ({"options": {"etag_cache_size": 5}}, "github.etag_cache_size"),
        ({"trusted_authors": ("octocat", "@MEMBERS")}, "tracker.trusted_authors"),
        ({"trusted_authors": ("MEMBER",)}, "tracker.trusted_authors"),
        ({"trusted_authors": ("Ann Smith",)}, "tracker.trusted_authors"),
        ({"trusted_authors": ("ann@example.com",)}, "tracker.trusted_authors"),
        ({"trusted_authors": ("@octocat",)}, "tracker.trusted_authors"),
        ({"active_states": ()}, "tracker.active_states"),
        ({"active_states": ("a,b",)}, "tracker.active_states"),
        ({"active_states": ("x" * 51,)}, "tracker.active_states"),
        ({"active_states": (".",)}, "tracker.active_states"),
        ({"terminal_states": ("..",)}, "tracker.active_states"),
        ({"active_states": ("closed",)}, "tracker.active_states"),
        ({"active_states": tuple(f"s{n}" for n in range(21))}, "tracker.active_states"),
        ({"terminal_states": ("Open",)}, "tracker.terminal_states"),
        ({"terminal_states": ()}, "tracker.terminal_states"),
        ({"terminal_states": ("Wontfix",), "failed_states": ("wontfix",)}, "tracker.terminal_states"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(fields: dict[str, Any], key: str) -> None:
    found = dict(GitHubTracker.check(settings(**fields)))
    assert key in found
    assert found[key].endswith(".")
    assert "ghp_" not in found[key]


def test_without_active_states_it_says_what_would_be_worked_on() -> None:
    """An open issue without any label is in no state that a person has given it."""
    (found,) = [sentence for key, sentence in GitHubTracker.check(settings(active_states=())) if "active" in key]
    assert "every open issue" in found
    assert "`todo`" in found


def test_without_a_state_of_what_is_done_it_says_what_would_never_end() -> None:
    """A closed issue is in a state that is over only where the workflow has one."""
    ((key, found),) = GitHubTracker.check(settings(terminal_states=()))
    assert key == "tracker.terminal_states"
    assert "never be over" in found
    assert "`closed`" in found


@pytest.mark.parametrize(
    ("endpoint", "api"),
    [
        ("", "https://api.github.com"),
        ("https://api.github.com/", "https://api.github.com"),
        ("https://github.com", "https://api.github.com"),
        ("https://ghe.example.com", "https://ghe.example.com/api/v3"),
        ("https://ghe.example.com:8443/", "https://ghe.example.com:8443/api/v3"),
        ("https://ghe.example.com/api/v3/", "https://ghe.example.com/api/v3"),
        ("https://octo.ghe.com", "https://api.octo.ghe.com"),
        ("https://api.octo.ghe.com", "https://api.octo.ghe.com"),
        ("http://127.0.0.1:4600", "http://127.0.0.1:4600"),
    ],
)
def test_the_address_of_the_api_follows_from_the_one_people_use(endpoint: str, api: str) -> None:
    assert endpoint_of(settings(endpoint=endpoint)) == api
