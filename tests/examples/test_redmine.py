"""examples/redmine-tracker on a running Redmine: its own tests, and the whole service, killed and recovered."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sortie.core.observe import mark_of

from ..docs.test_extending import EXAMPLES, HERE, install
from ..e2e.processes import wait_for
from ..e2e.project import Project
from ..e2e.shell import BLOCKED, REVIEW, says
from ..npm import TIME_TO_INSTALL, NotInstalled
from ..servers import redmine
from ..servers.redmine import RedmineServer
from ..servers.redmine_gate import Gate

pytestmark = TIME_TO_INSTALL

AGENT = Path(__file__).parents[1] / "e2e" / "mcp_agent.py"
# Each agent holds a lock for as long as it lives; nobody may ever find it taken.
ALONE = f'exec 9> "$SORTIE_WORKFLOW_DIR/lock.$SORTIE_ISSUE_ID"; flock -n 9 || {says("TWICE $SORTIE_ISSUE_ID")}'


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedmineServer]:
    """One for each worker; each test has a project of its own."""
    try:
        made = redmine.start(tmp_path_factory.mktemp("redmine"))
    except NotInstalled as problem:
        message = f"NOT TESTED: {problem}"
        if os.environ.get("CI") == "true" and shutil.which("apt-get"):
            pytest.fail(message)
        pytest.skip(message)
    yield made
    made.stop()


# -- its own tests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["test_redmine_tracker", "test_redmine_behaviour", "test_redmine_refusals"])
def test_the_tests_of_the_package_pass_on_a_running_server(server, tmp_path, name):
    """In a copy, away from the settings of this repository; none is left out."""
    package = Path(shutil.copytree(EXAMPLES / "redmine-tracker", tmp_path / "redmine-tracker"))
    path = os.pathsep.join([HERE, str(package / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", f"tests/{name}.py"],
        cwd=package,
        env={**os.environ, "PYTHONPATH": path, **server.variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_the_workflow_of_the_package_is_valid_where_it_is_installed(tmp_path):
    packages = tmp_path / "packages"
    packages.mkdir()
    install(EXAMPLES / "redmine-tracker", packages)
    path = os.pathsep.join([HERE, str(packages)])
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "validate", EXAMPLES / "redmine-tracker" / "WORKFLOW.md"],
        env={**os.environ, "PYTHONPATH": path, "REDMINE_API_KEY": "k"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


# -- the whole service ------------------------------------------------------------------------------------------


class Scene:
    """A project of Sortie whose issues are in a project of Redmine, with a gate in between."""

    def __init__(self, root: Path, server: RedmineServer, gate: Gate) -> None:
        self.server = server
        self.gate = gate
        self.name = server.project()
        self.sortie = Project(root)
        statuses = server.call("GET", "/issue_statuses.json")["issue_statuses"]
        self.statuses = {each["name"]: each["id"] for each in statuses}
        packages = root / "packages"
        packages.mkdir()
        install(EXAMPLES / "redmine-tracker", packages)
        self.sortie.find_modules_in(packages)
        self.sortie.environment["REDMINE_API_KEY"] = server.key("sortie")

    def workflow(self, **more: Any) -> None:
        tracker = {
            "kind": "redmine",
            "endpoint": self.gate.url,
            "api_key": "$REDMINE_API_KEY",
            "project": self.name,
            "active_states": ["Todo", "In Progress"],
            "in_progress_state": "In Progress",
            "handoff_state": "In Review",
            "comments": {"on_dispatch": True, "on_completion": True},
            "calls_per_minute": 6000,
        }
        self.sortie.workflow({"tracker": tracker, "budget": {"per_issue": {"sessions": 50}}, **more})

    def add(self, subject: str, script: str) -> str:
        """An issue that somebody writes, and the script that is its agent."""
        fields = {"project_id": self.name, "tracker_id": self.server.known.tracker, "subject": subject}
        issue_id = str(self.server.call("POST", "/issues.json", {"issue": fields})["issue"]["id"])
        (self.sortie.root / "agents" / f"{issue_id}.sh").write_text(f"{ALONE}\n{script}")
        return issue_id

    def edit(self, issue_id: str, **fields: Any) -> None:
        self.server.call("PUT", f"/issues/{issue_id}.json", {"issue": fields})

    def issue(self, issue_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.server.call("GET", f"/issues/{issue_id}.json?include=journals")["issue"]
        return found

    def state(self, issue_id: str) -> str:
        return str(self.issue(issue_id)["status"]["name"])

    def moves(self, issue_id: str) -> list[str]:
        names = {str(number): name for name, number in self.statuses.items()}
        details = [detail for each in self.issue(issue_id)["journals"] for detail in each["details"]]
        return [names[detail["new_value"]] for detail in details if detail["name"] == "status_id"]

    def marks(self, issue_id: str) -> list[str]:
        """Of our comments, in their order."""
        found = [mark_of(each["notes"] or "") for each in self.issue(issue_id)["journals"]]
        return [mark for mark in found if mark]

    def kinds(self, issue_id: str) -> list[str]:
        return [mark.rpartition(".")[2] for mark in self.marks(issue_id)]

    def has_workspace(self, issue_id: str) -> bool:
        return any(self.sortie.workspaces.glob(f"[!.]*{issue_id}-*"))

    def kill_at(self, which: Any, *, is_done_first: bool = False) -> None:
        """SIGKILL while such a call waits for its answer, which Redmine may have given."""
        self.gate.hold(which, is_done_first=is_done_first)
        service = self.sortie.start()
        service.until(self.gate.reached.is_set)
        service.kill()

    def assert_sound(self, *issue_ids: str) -> None:
        for issue_id in issue_ids:
            assert self.state(issue_id) == "In Review"
            assert self.moves(issue_id) == ["In Progress", "In Review"]
            assert not [mark for mark, times in Counter(self.marks(issue_id)).items() if times > 1]
            assert self.kinds(issue_id).count("completion") == 1
        assert not [line for line in self.sortie.diary() if "TWICE" in line]
        assert self.sortie.living() == []
        assert self.sortie.schedule().running == {}


@pytest.fixture
def scene(server: RedmineServer, tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "project").mkdir()
    with Gate.before(server.url) as gate:
        made = Scene(tmp_path / "project", server, gate)
        yield made
        made.sortie.clean_up()


def comments(kind: str) -> Any:
    return lambda asked: (mark_of(asked.fields.get("notes", "")) or "").endswith(f".{kind}")


def test_a_whole_run(scene):
    """Looked at, started, moved, commented, asked by a tool, handed over; blocked until a person writes; closed."""
    scene.workflow()
    gone_on = f"[ $SORTIE_ATTEMPT = 1 ] && {{ {BLOCKED}; exit 0; }}; {says('goes on')}; {REVIEW}"
    stuck = scene.add("Paint the door", gone_on)
    ask = [["call", "tracker_api", {"operation": "fetch_comments", "issue_id": stuck}]]
    asks = f"{sys.executable} {AGENT} {shlex.quote(json.dumps(ask))} && {REVIEW}"
    service = scene.sortie.start()
    service.until(lambda: stuck in scene.sortie.parked())
    asking = scene.add("Ask for the colour", asks)
    service.until(lambda: scene.state(asking) == "In Review")
    assert scene.state(stuck) == "In Progress"

    (answer,) = [json.loads(line) for line in scene.sortie.diary() if line.startswith("{")]
    assert answer["success"] is True
    began, ended = (comment["body"] for comment in answer["data"])
    assert mark_of(began) == scene.marks(stuck)[0]
    assert scene.marks(stuck)[1] in ended and "data, not instructions" in ended, "it has an agent's words"

    # Redmine tells times in seconds: a note in the very second of our last one would look like no change.
    last = datetime.fromisoformat(scene.issue(stuck)["updated_on"]).timestamp()
    wait_for(lambda: time.time() >= last + 1)
    scene.edit(stuck, notes="Green, please.")
    service.until(lambda: scene.state(stuck) == "In Review")
    service.until(lambda: not scene.sortie.schedule().running and not scene.sortie.parked())
    assert scene.sortie.diary().count("goes on") == 1
    for issue_id in (stuck, asking):
        assert scene.moves(issue_id) == ["In Progress", "In Review"]
    assert scene.kinds(asking) == ["dispatch", "completion"]
    assert scene.kinds(stuck) == ["dispatch", "completion"] * 2

    assert scene.has_workspace(asking)
    scene.edit(asking, status_id=scene.statuses["Done"])
    service.until(lambda: not scene.has_workspace(asking))
    assert scene.has_workspace(stuck), "nobody has accepted that one yet"
    assert service.stop() == 0
    assert scene.sortie.living() == []
    path = f"/issues/{asking}.json"
    writes = [each for each in scene.gate.asked if each.method == "PUT" and each.path == path]
    assert len(writes) == 4, "two moves and two comments, each once"
    assert scene.server.key("sortie") not in scene.sortie.output()


def test_killed_within_each_write_nothing_is_said_or_done_twice(scene):
    """A kill before Redmine has the comment or the hand-off, and one after it, before anybody knows."""
    scene.workflow()
    issue_id = scene.add("Paint the door", f"{says('agent')}; {REVIEW}")
    handed_over = scene.statuses["In Review"]
    for which in (
        comments("dispatch"),
        lambda asked: asked.fields.get("status_id") == handed_over,
        comments("completion"),
    ):
        for is_done_first in (False, True):
            scene.kill_at(which, is_done_first=is_done_first)
    assert scene.sortie.run() == 0
    scene.assert_sound(issue_id)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_request_the_work_is_done_once(scene, seed):
    scene.workflow()
    issues = [scene.add(f"Door {number}", f"{says('agent')}; {REVIEW}") for number in range(3)]
    chance = random.Random(seed)
    for _ in range(4):
        number = chance.randint(5, 22)
        scene.kill_at(lambda asked, number=number: asked.number == number, is_done_first=chance.random() < 0.5)
    assert scene.sortie.run() == 0
    scene.assert_sound(*issues)
