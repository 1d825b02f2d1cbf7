"""The Redmine to test with: a server that is there for nothing else, named by the environment.

REDMINE_URL             its address
REDMINE_ADMIN_KEY       of an administrator, who makes a project for each test and removes it
REDMINE_KEY             of the user that Sortie is
REDMINE_PERSON_KEY      of somebody else, who writes issues
REDMINE_STRANGER_KEY    of somebody who is never made a member

It has the statuses Todo, In Progress, In Review, Done and Rejected, a tracker Task in which the roles Developer and
Manager may move an issue from each of the first four to every other, and to Rejected from none. Sortie is a member
of its project `many`, which has 1050 issues in Todo: 250 of them are urgent, and their subjects begin "Chosen".
"""

from __future__ import annotations

import json
import os
import urllib.request
import uuid

import pytest
from redmine_tracker import RedmineTracker

from sortie import TrackerSettings
from sortie.trackers.rest_client import Bounds

VARIABLES = {"admin": "REDMINE_ADMIN_KEY", "person": "REDMINE_PERSON_KEY", "stranger": "REDMINE_STRANGER_KEY"}


class PatientTracker(RedmineTracker):
    """A machine that is busy with other tests is no failure of the tracker: it waits as long as its callers do."""

    def __init__(self, settings):
        super().__init__(settings, Bounds(one_try=24.0))


class Redmine:
    """The server as people use it; what it refuses raises `urllib.error.HTTPError`. `kind` are trackers on it."""

    kind = PatientTracker

    def __init__(self) -> None:
        self.url, self.key = os.environ["REDMINE_URL"], os.environ["REDMINE_KEY"]
        self.keys = {"sortie": self.key, **{who: os.environ[name] for who, name in VARIABLES.items()}}
        self.users = {who: self("GET", "/users/current.json", by=who)["user"] for who in self.keys}
        self.statuses = self._ids("/issue_statuses.json", "issue_statuses")
        self.roles = self._ids("/roles.json", "roles")
        self.trackers = self._ids("/trackers.json", "trackers")

    def __call__(self, method, path, body=None, by="person"):
        content = None if body is None else json.dumps(body).encode()
        headers = {"X-Redmine-API-Key": self.keys[by], "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = response.read()
        return json.loads(answer) if answer.strip() else None

    def project(self, **more):
        """A new one with Sortie and a person as its members; the answer is its identifier."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        about = {"name": name, "identifier": name, "is_public": False, "enabled_module_names": ["issue_tracking"]}
        about |= {"tracker_ids": [self.trackers["Task"]], **more}
        self("POST", "/projects.json", {"project": about}, by="admin")
        for who, role in {"sortie": "Developer", "person": "Manager"}.items():
            member = {"user_id": self.users[who]["id"], "role_ids": [self.roles[role]]}
            self("POST", f"/projects/{name}/memberships.json", {"membership": member}, by="admin")
        return name

    def issue(self, project, subject="Some work", state="", by="person", **more):
        """A new issue; the answer is its id, as text."""
        fields = {"project_id": project, "tracker_id": self.trackers["Task"], "subject": subject, **more}
        made = self("POST", "/issues.json", {"issue": fields}, by=by)["issue"]
        if state and state != made["status"]["name"]:
            self.edit(str(made["id"]), status_id=self.statuses[state])
        return str(made["id"])

    def category(self, project, name):
        """A new one of the project; the answer is its id."""
        body = {"issue_category": {"name": name}}
        return self("POST", f"/projects/{project}/issue_categories.json", body, by="admin")["issue_category"]["id"]

    def edit(self, issue_id, by="person", **fields):
        self("PUT", f"/issues/{issue_id}.json", {"issue": fields}, by=by)

    def block(self, issue_id, blocker):
        relation = {"issue_to_id": int(issue_id), "relation_type": "blocks"}
        self("POST", f"/issues/{blocker}/relations.json", {"relation": relation})

    def settings(self, project, **more):
        states = {"active_states": ("Todo", "In Progress"), "terminal_states": ("Done",)}
        said = {"endpoint": self.url, "api_key": self.key, "project": project, "calls_per_minute": 6000}
        return TrackerSettings(kind="redmine", **{**states, **said, **more})

    def _ids(self, path, name):
        return {each["name"]: each["id"] for each in self("GET", path)[name]}


@pytest.fixture(scope="session")
def redmine():
    missing = [name for name in ("REDMINE_URL", "REDMINE_KEY", *VARIABLES.values()) if name not in os.environ]
    if missing:
        pytest.skip(f"NOT TESTED: there is no Redmine; set {', '.join(missing)}")
    return Redmine()


@pytest.fixture
def project(redmine):
    name = redmine.project()
    yield name
    redmine("DELETE", f"/projects/{name}.json", by="admin")


@pytest.fixture
async def connect(redmine):
    """Trackers on that server, closed after the test."""
    made = []

    def connect(project, **more):
        made.append(redmine.kind.from_settings(redmine.settings(project, **more)))
        return made[-1]

    yield connect
    for tracker in made:
        await tracker.aclose()


@pytest.fixture
def anyio_backend():
    return "asyncio"
