"""A service killed at each of its writes to GitHub: before it arrives, and after it was done but not yet answered.

The next start repairs or completes what was cut short; nothing is said twice, and no issue ends between two states.
"""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sortie.core.observe import mark_of
from tests.e2e.github_project import looks, marks, opened, workflow
from tests.e2e.project import Project
from tests.e2e.shell import BLOCKED, REVIEW
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import OWNER
from tests.servers.fault_proxy import Answer, Asked, Overlay
from tests.servers.github_scene import GitHubScene
from tests.servers.github_scene import github as github

pytestmark = TIME_TO_INSTALL

AGENT = Path(__file__).parents[1] / "e2e" / "mcp_agent.py"
CLOSE = ["call", "tracker_api", {"operation": "transition_issue", "issue_id": "1", "target_state": "done"}]

# What an undisturbed run writes, in this order; a test below fails where that is no longer so.
HANDED_OVER = (
    "POST labels in-progress",
    "DELETE labels todo",
    "POST comments",
    "POST labels review",
    "DELETE labels in-progress",
    "POST comments",
)
# What closes an issue that an agent works on.
CLOSING = ("POST labels done", "PATCH", "DELETE labels in-progress")
# Of a run that ends blocked: the same but for the hand-over.
BLOCKED_COMMENT = 4
LEFT_TO_A_PERSON = 3


class Gate:
    """Stands before another overlay and stops a write, before it is done or after it was: the one of this number,
    or the first of this kind."""

    def __init__(self, overlay: Overlay, which: int | str, *, is_done: bool) -> None:
        self._overlay = overlay
        self._which = which
        self._is_done = is_done
        self._lock = threading.Lock()
        self.writes: list[str] = []
        self.reached = threading.Event()
        self.opened = threading.Event()

    def answer(self, asked: Asked) -> Answer | None:
        if asked.method == "GET":
            return self._overlay.answer(asked)
        with self._lock:
            self.writes.append(_told(asked))
        if self._is_it() and not self._is_done:
            self._stop()
            return Answer(deed=lambda line: line.close())
        return self._overlay.answer(asked)

    def passed_on(self, asked: Asked) -> Asked:
        return self._overlay.passed_on(asked)

    def completed(self, asked: Asked, answer: Answer) -> Answer:
        if asked.method != "GET" and self._is_done and self._is_it():
            self._stop()
        return self._overlay.completed(asked, answer)

    def is_vouched_for(self, asked: Asked, answer: Answer) -> bool:
        return self._overlay.is_vouched_for(asked, answer)

    def _is_it(self) -> bool:
        return not self.reached.is_set() and self._which in (len(self.writes), self.writes[-1])

    def _stop(self) -> None:
        self.reached.set()
        self.opened.wait()


def _told(asked: Asked) -> str:
    words = asked.path.split("/")
    if words[-1] == "labels":
        return f"{asked.method} labels {json.loads(asked.body)['labels'][0]}"
    if words[-2] == "labels":
        return f"{asked.method} labels {words[-1]}"
    return f"{asked.method} {words[-1]}" if words[-1] == "comments" else asked.method


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "project"
    root.mkdir()
    made = Project(root)
    yield made
    made.clean_up()


def killed_at(
    project: Project,
    scene: GitHubScene,
    which: int | str,
    *,
    is_done: bool,
    meanwhile: Callable[[], object] = lambda: None,
    ends_with: int = 0,
) -> None:
    """Start the service and kill it at this write; start it again, and let it come to its end."""
    gate = Gate(scene.overlay, which, is_done=is_done)
    scene.server._overlay = gate
    service = project.start()
    service.until(gate.reached.is_set)
    service.kill()
    scene.server._overlay = scene.overlay
    gate.opened.set()
    meanwhile()
    service = project.start(until_idle=True)
    assert service.wait() == ends_with, project.output()


def assert_asleep(project: Project, scene: GitHubScene, issue: str) -> None:
    """Several looks later nobody has woken it: our own move of the issue is no change by a person."""
    service = project.start()
    before = looks(scene)
    service.until(lambda: looks(scene) > before + 3)
    service.stop()
    assert len(project.runs(issue)) == 1
    assert project.parked()[issue][0] == "signal"


def assert_sound(project: Project, scene: GitHubScene, issue: str) -> None:
    assert project.living() == []
    assert project.schedule().running == {}
    assert project.schedule().effects == {}
    assert max(Counter(marks(scene, issue)).values()) == 1, "a comment is there twice"
    said = Counter(mark.rpartition(".")[2] for mark in marks(scene, issue))
    begun = len({run.run_id for run in project.runs(issue)})
    assert said["completion"] == 1
    assert said["dispatch"] <= begun


def test_the_writes_of_an_undisturbed_run_are_those_that_are_tried(project: Project, scene: GitHubScene):
    gate = Gate(scene.overlay, 0, is_done=False)
    scene.server._overlay = gate
    workflow(project, scene)
    opened(project, scene, REVIEW)
    assert project.run() == 0
    assert gate.writes == [*HANDED_OVER]


@pytest.mark.parametrize("is_done", [False, True], ids=["not-done", "done"])
@pytest.mark.parametrize("number", range(1, len(HANDED_OVER) + 1))
def test_killed_at_a_write_the_issue_is_handed_over_all_the_same(
    project: Project, scene: GitHubScene, number: int, is_done: bool
):
    """A2O-08, and nothing is done twice: labels, comments, the hand-over."""
    workflow(project, scene)
    issue = opened(project, scene, REVIEW, "todo", "backend")
    killed_at(project, scene, number, is_done=is_done)
    assert scene.labels(1) == ["backend", "review"]
    assert_sound(project, scene, issue)


def test_a_stranger_who_knows_our_mark_suppresses_no_comment_of_ours(project: Project, scene: GitHubScene):
    """The comment that tells of the beginning has in it by what the one that tells of the end is known."""
    assert_not_suppressed(project, scene)


def test_a_stranger_who_is_excluded_suppresses_no_comment_of_ours_either(project: Project, scene: GitHubScene):
    assert_not_suppressed(project, scene, excluded_authors=["bob"])


def assert_not_suppressed(project: Project, scene: GitHubScene, **tracker: object) -> None:
    def forges() -> None:
        begun = marks(scene, issue)[0].rpartition(".")[0]
        scene.comment(1, f"Nothing to see.\n\n<!-- sortie:{begun}.completion -->", by="bob")

    workflow(project, scene, tracker=tracker)
    issue = opened(project, scene, REVIEW)
    killed_at(project, scene, len(HANDED_OVER), is_done=False, meanwhile=forges)
    ours = [one["body"] for one in scene.comments(1) if one["user"]["login"] == OWNER]
    assert [str(mark_of(body)).rpartition(".")[2] for body in ours] == ["dispatch", "completion"]


def test_our_own_account_need_not_be_trusted_for_its_comments_to_be_known(project: Project, scene: GitHubScene):
    workflow(project, scene, tracker={"trusted_authors": ["ann"]})
    issue = opened(project, scene, REVIEW)
    killed_at(project, scene, len(HANDED_OVER), is_done=True)
    assert_sound(project, scene, issue)


def test_our_own_account_may_be_excluded_and_its_comments_are_known_all_the_same(
    project: Project, scene: GitHubScene
):
    """Whoever leaves out what everybody says who is nothing to the project may mean our account too."""
    workflow(project, scene, tracker={"trusted_authors": ["bob"], "excluded_authors": [OWNER]})
    issue = opened(project, scene, REVIEW, by="bob")
    killed_at(project, scene, len(HANDED_OVER), is_done=True)
    assert_sound(project, scene, issue)


@pytest.mark.parametrize("is_done", [False, True], ids=["not-done", "done"])
def test_killed_at_the_last_comment_a_blocked_issue_stays_parked(
    project: Project, scene: GitHubScene, is_done: bool
):
    """A2O-09: what it is compared with when it is looked at again has our own move in it."""
    workflow(project, scene)
    issue = opened(project, scene, BLOCKED, "todo", "backend")
    killed_at(project, scene, BLOCKED_COMMENT, is_done=is_done, ends_with=LEFT_TO_A_PERSON)
    assert_asleep(project, scene, issue)
    assert_sound(project, scene, issue)


@pytest.mark.parametrize("is_done", [False, True], ids=["not-done", "done"])
@pytest.mark.parametrize("which", CLOSING)
def test_killed_while_an_agent_closes_its_issue_it_is_closed_once(
    project: Project, scene: GitHubScene, which: str, is_done: bool
):
    """Before it is closed it is worked on again. Once it is, the next start takes the label of its former state
    away: who reopens the issue would start an agent with it."""
    workflow(project, scene, tools={"credentials": "broker"}, tracker={"comments": {"on_completion": False}})
    issue = opened(
        project, scene, f"{sys.executable} {AGENT} {shlex.quote(json.dumps([CLOSE]))}", "in-progress", "backend"
    )
    killed_at(project, scene, which, is_done=is_done)
    assert scene.record(1)["state"] == "closed"
    assert scene.labels(1) == ["backend", "done"]
    assert max(Counter(marks(scene, issue)).values(), default=0) <= 1
    assert project.living() == []
