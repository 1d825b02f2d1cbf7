"""Comments that are long: bounded, still compared as a whole, and read however large a page of them is."""

from __future__ import annotations

import pytest

from sortie.core.observe import fingerprint, mark, mark_of
from sortie.trackers.github.comments import SMALLER
from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.long_comments import LONGEST_KEPT, kept
from sortie.trackers.trust import judged_tracker
from tests.npm import TIME_TO_INSTALL
from tests.servers.fault_proxy import Answer
from tests.servers.github_scene import GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

LONG = "x" * 60_000
# Larger than any answer that is kept.
FLOOD = Answer(200, b" " * (33 * 1024 * 1024))


def test_of_a_long_body_the_beginning_is_kept_and_a_sign_for_the_rest():
    assert kept("x" * LONGEST_KEPT) == "x" * LONGEST_KEPT
    bodies = [kept(LONG + end) for end in ("", "a", "b")]
    assert len(set(bodies)) == 3
    for body in bodies:
        assert len(body) == LONGEST_KEPT and body.startswith("xxx")
    assert "[The rest of its 60,001 characters is left out; all of them: " in bodies[1]


@pytest.mark.parametrize("text", ["\ud800" * 20_000, "\n" * 20_000, "<!-- sortie:r.x -->\n" * 2_000 + "y"])
def test_no_body_is_too_odd_to_be_bounded(text):
    assert len(kept(text)) <= LONGEST_KEPT and mark_of(kept(text)) is None


def test_our_mark_is_kept_however_long_the_body_is():
    assert mark_of(kept(mark(LONG, "r.completion"))) == "r.completion"
    assert len(kept(f"{LONG}\n<!-- sortie:{'r' * 60_000} -->")) == LONGEST_KEPT


async def test_a_change_at_the_end_of_a_long_comment_wakes_its_issue(scene: GitHubScene) -> None:
    scene.overlay.associations["ann"] = "MEMBER"
    tracker = judged_tracker(GitHubTracker, scene.settings())
    found = []
    for end in ("Yes.", "No."):
        number = scene.open("Task", "Todo")
        scene.comment(number, f"{LONG} {end}", by="ann")
        found.append(await tracker.fetch_issue(str(number)))
    bodies = [comment.body for issue in found for comment in issue.comments or ()]
    assert [len(body) for body in bodies] == [LONGEST_KEPT] * 2
    assert fingerprint(found[0]) != fingerprint(found[1])
    await tracker.aclose()


@pytest.mark.parametrize("refused", [1, 2])
async def test_a_page_that_is_too_large_is_read_in_smaller_ones(scene: GitHubScene, refused: int) -> None:
    number = scene.open("Task", "Todo")
    for n in range(130):
        scene.comment(number, f"Comment {n}", by="bob")
    for size in list(SMALLER)[:refused]:
        scene.server.fail(f"GET .*/comments[?]per_page={size}(&page=1)?", FLOOD)
    tracker = scene.tracker()
    found = (await tracker.fetch_issue(str(number))).comments or ()
    assert [comment.body for comment in found] == [f"Comment {n}" for n in range(130)]
    await tracker.aclose()
