"""The process that sends, beside a store that somebody else writes: what is told, to whom, and how often."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.workflow.channels import ChannelConfig

from ..e2e.processes import is_alive, wait_for
from ..servers.scripted import Answer, ScriptedServer
from .scene import hook, items_in, parked, seen, told_of, until_told


def handed_over(scene, number: int) -> None:
    scene.runs(number, soft_stop="needs-human-review", reason="have a look", why="handed over to Review")


def fault(tries: int, kind: str = "agent_auth", provider: str = "codex") -> ev.ProviderPaused:
    now = time.time()
    return ev.ProviderPaused(
        at=now, provider=provider, until=now + 60, detail="not logged in", error_kind=kind, tries=tries
    )


def park(kind: Any) -> dict[str, object]:
    return {"park": ev.Park(kind=kind, reason=f"because of {kind}", fingerprint="f")}


# -- what is told -------------------------------------------------------------------------------------------------


def test_what_needs_a_person_is_told_and_nothing_else(scene, sink):
    scene.runs(1, soft_stop="blocked", reason="no key", **park("signal"))
    scene.runs(2, **park("error"))
    scene.runs(3, **park("budget"))
    scene.runs(4, **park("operator"))
    scene.runs(5, soft_stop="needs-human-review", reason="look", **park("signal"))
    handed_over(scene, 6)
    scene.runs(7, why="the issue is in Done, which is not active")
    scene.runs(8, retry=ev.Retry(kind="error", attempt=2, due_at=time.time(), error="exit 1"))
    scene.happens(fault(1), fault(2), fault(0, "rate_limited", "gemini"))
    scene.happens(ev.Noted(at=time.time(), level="error", message="it is bad", detail="very"))
    scene.happens(ev.Noted(at=time.time(), level="warning", message="not so bad"))
    notifier = scene.start({"ops": hook(sink)})
    until_told(sink, "T-1", "T-2", "T-3", "T-5", "T-6", "agent codex", "service")
    notifier.ends()
    (digest,) = sink.asked
    told = {item["issue"]: (item["event"], item["reason"]) for item in items_in(digest)}
    assert told == {
        "T-1": ("parked", "because of signal"),
        "T-2": ("error", "because of error"),
        "T-3": ("budget", "because of budget"),
        "T-5": ("review", "because of signal"),
        "T-6": ("review", "have a look"),
        "agent codex": ("service", "The codex agent cannot run, so nothing starts: not logged in"),
        "service": ("service", "it is bad: very"),
    }


def test_the_budget_of_a_day_is_told_once_however_many_issues_it_holds_back(scene, sink):
    now = time.time()
    held = [
        ev.Skipped(at=now, issue_id=str(n), identifier=f"T-{n}", rule="day-budget", detail="200 of 200 sessions")
        for n in range(5)
    ]
    scene.happens(*(seen(n) for n in range(5)), *held[:3])
    notifier = scene.start({"ops": hook(sink)})
    wait_for(lambda: sink.asked)
    scene.happens(*held[3:])
    scene.parks(9)
    wait_for(lambda: len(sink.asked) == 2)
    notifier.ends()
    (day,) = [issue for issue in told_of(sink) if issue != "T-9"]
    assert day.startswith("day 20")
    assert "200 of 200 sessions" in json.loads(sink.asked[0].body)["reason"]


def test_a_channel_is_told_only_of_what_it_asks_for(scene, sink):
    with ScriptedServer.running() as other:
        scene.start({"ops": hook(sink, on=("error",)), "all": hook(other)})
        scene.parks(1)
        scene.parks(2, kind="error")
        until_told(other, "T-1", "T-2")
        until_told(sink, "T-2")


def test_a_new_channel_is_told_nothing_of_the_past(scene, sink):
    scene.happens(seen(1), parked(1, "long ago", at=time.time() - 60))
    with ScriptedServer.running() as other:
        notifier = scene.start({"ops": hook(sink)}, since=time.time() - 30)
        scene.parks(2)
        until_told(sink, "T-2")
        notifier.told({"ops": hook(sink), "new": hook(other)}, since=time.time())
        scene.parks(3)
        until_told(other, "T-3")
        until_told(sink, "T-2", "T-3")


def test_what_is_older_than_three_days_is_news_to_nobody(scene, sink):
    scene.happens(seen(1), parked(1, "long ago", at=time.time() - 4 * 86400))
    notifier = scene.start({"ops": hook(sink)})
    scene.parks(2)
    until_told(sink, "T-2")
    notifier.ends()
    assert told_of(sink) == ["T-2"]


# -- together, or one by one --------------------------------------------------------------------------------------


def test_a_hundred_at_once_are_one_message_that_names_some_and_counts_the_rest(scene, sink):
    scene.parks(*range(100))
    scene.start({"ops": hook(sink, format="slack")})
    text = json.loads(wait_for(lambda: sink.asked)[0].body)["text"]
    lines = text.splitlines()
    assert lines[0] == "[sortie] 100 things need you"
    assert lines[-1] == "and 80 more"
    assert len(lines) == 22
    wait_for(lambda: scene.rows("sent_at", where="sent_at IS NOT NULL"))
    assert len(scene.rows("id", where="sent_at IS NOT NULL")) == 100
    assert len(sink.asked) == 1


def test_what_comes_while_more_is_waited_for_goes_with_it(scene, sink):
    """A minute is waited for company; the end of the service cuts it short."""
    notifier = scene.start({"ops": hook(sink, digest_seconds=60)})
    scene.parks(1)
    wait_for(lambda: scene.rows("id"))
    scene.parks(2)
    wait_for(lambda: len(scene.rows("id")) == 2)
    assert sink.asked == []
    notifier.ends()
    assert told_of(sink) == ["T-1", "T-2"]
    assert len(sink.asked) == 1


def test_what_was_settled_before_it_was_told_is_not_told(scene, sink):
    notifier = scene.start({"ops": hook(sink, digest_seconds=60)})
    scene.parks(1, 2)
    handed_over(scene, 3)
    scene.happens(fault(1))
    wait_for(lambda: len(scene.rows("id")) == 4)
    scene.frees(1)
    scene.happens(ev.ProviderResumed(at=time.time(), provider="codex", why="it works"))
    notifier.ends()
    assert told_of(sink) == ["T-2", "T-3"]
    assert scene.rows("identifier", where="dropped = 'settled'") == ["T-1", "agent codex"]


def test_an_outage_that_is_over_is_not_told_any_more(scene, sink):
    def noted(level: ev.Level, message: str) -> ev.Noted:
        return ev.Noted(at=time.time(), level=level, message=message, detail="no answer")

    notifier = scene.start({"ops": hook(sink, digest_seconds=60)})
    scene.happens(noted("error", "the tracker still cannot be used; nothing new starts"))
    scene.happens(noted("error", "the place of the workspaces cannot be used; nothing new starts"))
    wait_for(lambda: len(scene.rows("id")) == 2)
    scene.happens(noted("info", "every record of the tracker can be used again"))
    scene.happens(noted("info", "the tracker can be used again"))
    notifier.ends()
    ((told,),) = (items_in(asked) for asked in sink.asked)
    assert told["reason"].startswith("the place of the workspaces")


def test_a_review_is_not_told_of_work_that_was_gone_on_with_before(scene, sink):
    """Whatever came of it: what was handed over again is another event."""
    notifier = scene.start({"ops": hook(sink, digest_seconds=60)})
    handed_over(scene, 1)
    handed_over(scene, 2)
    scene.runs(3, soft_stop="needs-human-review", reason="look", **park("signal"))
    scene.runs(4, soft_stop="needs-human-review", reason="look", **park("signal"))
    wait_for(lambda: len(scene.rows("id")) == 4)
    scene.runs(1, why="the issue is in Done, which is not active")
    scene.frees(3)
    notifier.ends()
    assert told_of(sink) == ["T-2", "T-4"]


def test_an_issue_that_is_parked_anew_is_told_once_with_the_new_question(scene, sink):
    notifier = scene.start({"ops": hook(sink, digest_seconds=60)})
    scene.parks(1, reason="the first question")
    scene.frees(1)
    scene.parks(1, reason="the second question")
    wait_for(lambda: len(scene.rows("id")) == 2)
    notifier.ends()
    assert json.loads(sink.asked[0].body)["reason"] == "the second question"


# -- once ---------------------------------------------------------------------------------------------------------


def test_each_event_is_told_once_across_restarts(scene, sink):
    for number in range(3):
        notifier = scene.start({"ops": hook(sink)})
        scene.parks(number)
        until_told(sink, *(f"T-{n}" for n in range(number + 1)))
        wait_for(lambda: not scene.rows("id", where="sent_at IS NULL"))
        notifier.kill() if number % 2 else notifier.ends()
    scene.start({"ops": hook(sink)}).ends()
    assert told_of(sink) == ["T-0", "T-1", "T-2"]


def test_killed_between_sending_and_noting_it_the_next_one_sends_it_with_the_same_id(scene, sink):
    """A receiver that keeps ids can tell; what was not noted as sent is never lost."""
    scene.parks(1)
    notifier = scene.start({"ops": hook(sink, digest_seconds=60)})

    def kill_the_sender(_: socket.socket) -> None:
        os.kill(notifier.process.pid, signal.SIGKILL)

    sink.script.append(Answer(deed=kill_the_sender))
    notifier.told({"ops": hook(sink)})
    wait_for(lambda: not is_alive(notifier.process.pid))
    assert scene.rows("sent_at") == [None]
    scene.start({"ops": hook(sink)})
    wait_for(lambda: scene.rows("id", where="sent_at IS NOT NULL"))
    first, second = sink.asked
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] == json.loads(first.body)["id"]


def test_a_changed_address_gets_what_the_old_one_did_not_take(scene, sink):
    sink.usual = Answer(500)
    notifier = scene.start({"ops": hook(sink)})
    scene.parks(1)
    wait_for(lambda: scene.rows("id", where="tries > 0"))
    scene.execute("UPDATE notifications SET next_try_at = 0")
    with ScriptedServer.running() as other:
        notifier.told({"ops": hook(other)})
        until_told(other, "T-1")


# -- when it cannot be told ---------------------------------------------------------------------------------------


def test_a_receiver_that_fails_is_tried_again_when_it_says_so(scene, sink):
    sink.script += [Answer(503, headers={"Retry-After": "0"}), Answer(429, headers={"Retry-After": "0"})]
    scene.parks(1)
    scene.start({"ops": hook(sink)})
    wait_for(lambda: scene.rows("id", where="sent_at IS NOT NULL"))
    assert len({asked.body for asked in sink.asked}) == 1
    assert scene.rows("tries", "error") == [(2, "")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(500, b"out of order"), "it answered 500: out of order"),
        (Answer(302, headers={"Location": "https://elsewhere.example.com/"}), "new address"),
        (Answer(deed=lambda connection: connection.close()), "cannot be reached"),
    ],
    ids=["500", "redirect", "hangs up"],
)
def test_what_goes_wrong_is_kept_and_the_next_try_has_a_time(scene, sink, answer, words):
    sink.usual = answer
    scene.parks(1)
    began = time.time()
    notifier = scene.start({"ops": hook(sink, secret="open-open-open-sesame")})
    wait_for(lambda: scene.rows("id", where="tries > 0"))
    ((error, next_try),) = scene.rows("error", "next_try_at")
    assert words in error
    assert next_try > began + 2.0
    scene.execute("UPDATE notifications SET next_try_at = next_try_at + 3600")
    scene.parks(2)
    wait_for(lambda: len(scene.rows("id")) == 2)
    assert words in notifier.ends()
    assert "T-2" not in told_of(sink), "news is no reason to try sooner"


def test_a_time_that_a_receiver_names_is_kept_within_an_hour(scene, sink):
    sink.script += [Answer(429, headers={"Retry-After": "999999999"})]
    scene.parks(1)
    scene.start({"ops": hook(sink)})
    (next_try,) = wait_for(lambda: scene.rows("next_try_at", where="tries > 0"))
    assert 3000 < next_try - time.time() <= 3600


def test_a_receiver_that_does_not_answer_keeps_no_other_waiting(scene, sink):
    with ScriptedServer.running() as slow:
        slow.usual = slow.never_answers()
        scene.parks(1)
        scene.start({"slow": hook(slow), "ops": hook(sink)})
        wait_for(lambda: slow.asked)
        scene.parks(2)
        until_told(sink, "T-1", "T-2")
        assert len(slow.asked) == 1


def test_nobody_at_the_address_is_an_error_without_the_address(scene):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/hook/a-secret-part-of-it"
        scene.parks(1)
        notifier = scene.start({"ops": ChannelConfig(webhook=address, digest_seconds=0)})
        (error,) = wait_for(lambda: scene.rows("error", where="tries > 0"))
        said = notifier.ends()
    assert "cannot be reached" in error
    assert "ops: it cannot be reached" in said
    assert "a-secret-part" not in error + said


def test_after_three_days_it_is_given_up_with_its_error_kept(scene, sink):
    scene.parks(1, 2)
    sink.usual = Answer(500)
    first = scene.start({"ops": hook(sink)})
    wait_for(lambda: scene.rows("id", where="tries > 0"))
    first.kill()
    scene.execute("UPDATE notifications SET at = at - 4 * 86400, next_try_at = 0 WHERE identifier = 'T-1'")
    said = scene.start({"ops": hook(sink)}).ends()
    assert scene.rows("identifier", "dropped") == [("T-1", "given up"), ("T-2", "")]
    assert scene.rows("error", where="dropped = 'given up'") == ["it answered 500: {}"]
    assert "1 given up after three days" in said


# -- the store ----------------------------------------------------------------------------------------------------


def test_what_is_old_is_forgotten(scene, sink):
    scene.parks(1, 2)
    first = scene.start({"ops": hook(sink)})
    wait_for(lambda: len(scene.rows("id", where="sent_at IS NOT NULL")) == 2)
    first.ends()
    scene.execute("UPDATE notifications SET at = at - 20 * 86400 WHERE identifier = 'T-1'")
    scene.start({"ops": hook(sink)}, keep_days=10)
    wait_for(lambda: scene.rows("identifier") == ["T-2"])


def test_a_store_that_is_lost_is_told_past_it(scene, sink):
    scene.start({"ops": hook(sink), "quiet": hook(sink, on=("parked",))})
    scene.parks(1)
    wait_for(lambda: len(sink.asked) == 2)
    scene.path.unlink()
    wait_for(lambda: len(sink.asked) == 3)
    told = json.loads(sink.asked[-1].body)
    assert told["event"] == "service"
    assert "was deleted" in told["reason"]


def test_a_store_that_cannot_be_written_is_told_past_it_once_for_each_outage(scene, sink):
    channels = {"ops": hook(sink), "quiet": hook(sink, on=("parked",))}
    began = time.time() - 60
    trouble = {"store_trouble": "The disk of hunter2-hunter2 is full.", "secrets": ("hunter2-hunter2",)}
    notifier = scene.start(channels, **trouble, store_troubled_since=time.time() + 3600)  # not for long yet
    for since in (began, began, began, began + 30):
        notifier.told(channels, **trouble, store_troubled_since=since)
    wait_for(lambda: sink.asked)
    scene.start(channels, **trouble, store_troubled_since=began)
    wait_for(lambda: len(sink.asked) == 2)
    notifier.ends()
    first, again = (json.loads(asked.body) for asked in sink.asked)
    assert first["reason"] == (
        "The store cannot be written, so nothing new starts: The disk of [redacted] is full."
    )
    assert (first["event"], first["id"]) == ("service", again["id"])


def test_what_was_taken_is_not_sent_again_while_the_store_refuses_to_note_it(scene, sink):
    scene.execute(
        "CREATE TRIGGER refuses BEFORE UPDATE OF sent_at ON notifications BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    scene.start({"ops": hook(sink)})
    scene.parks(1)
    until_told(sink, "T-1")
    scene.parks(2)
    wait_for(lambda: len(scene.rows("id")) == 2)
    scene.execute("DROP TRIGGER refuses")
    scene.parks(3)
    wait_for(lambda: len(scene.rows("id", where="sent_at IS NOT NULL")) == 3)
    assert told_of(sink) == ["T-1", "T-2", "T-3"]


def test_events_that_concern_nobody_move_the_cursor_now_and_then(scene, sink):
    """A look that finds nothing to tell writes nothing; only what would have to be read again is bounded."""
    scene.start({"ops": hook(sink)})
    scene.parks(1)
    until_told(sink, "T-1")
    noise = [ev.Noted(at=time.time(), level="info", message="nothing") for _ in range(3000)]
    scene.happens(*noise)
    wait_for(lambda: scene.db.execute("SELECT seq FROM notification_cursors").fetchone()[0] > 2000)
    scene.parks(2)
    until_told(sink, "T-1", "T-2")
