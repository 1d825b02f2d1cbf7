"""Every event survives the way to the log and back, and is a sentence to a person."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.model import RetryKind, Usage
from sortie.core.narrate import CAUSES, RULES, narrate

from .facts import NOW, policy, view

KINDS = ev.AnyEvent.__subclasses__()
RETRY = ev.Retry(kind="error", attempt=2, due_at=NOW + 10, failures=1, error="exit 1", session_id="s1")
PARK = ev.Park(kind="signal", reason="a key is missing", fingerprint="f00d", attempt=2, session_id="s1")
OVERDUE = ev.Overdue(issue_id="1", run_id="r1", cause="stalled", detail="no sign of life")
PLACE = ev.Place(host="build-1", free=2)

# One of each kind, with every field filled in.
SAMPLES: dict[type[ev.AnyEvent], dict[str, Any]] = {
    ev.Opened: {"pid": 7, "version": "1.0", "workflow": "WORKFLOW.md"},
    ev.PolicySet: {"policy": policy(max_concurrent_by_state={"todo": 1})},
    ev.IssueSeen: {"view": view(priority=1, blocked_by=("D-2",), fingerprint="f00d")},
    ev.IssueLeft: {"identifier": "D-1"},
    ev.Answered: {"answer_id": "a1", "text": "Use port 8080."},
    ev.Ticked: {
        "candidates_known": True,
        "now": NOW,
        "overdue": (OVERDUE,),
        "unsure": ("9",),
        "places": (PLACE,),
        "decided": 2,
    },
    ev.Skipped: {"identifier": "D-1", "rule": "no-slot", "detail": "2 agents run already"},
    ev.Claimed: {
        "identifier": "D-1",
        "attempt": 2,
        "cause": "error",
        "agent": "codex",
        "day": "2026-03-30",
        "provider": "codex/team-a",
        "host": "build-1",
    },
    ev.WorkspaceMade: {"identifier": "D-1", "key": "D-1", "path": "workspaces/D-1", "inode": 9, "number": 1},
    ev.WorkspaceGone: {"key": "D-1", "archive": "D-1.tar.gz"},
    ev.ProcessStarted: {"pid": 7, "start_ticks": 1, "boot_id": "b", "number": 2},
    ev.SessionStarted: {"session_id": "s1", "number": 3},
    ev.TurnStarted: {"turn": 3, "day": "2026-03-30", "number": 4},
    ev.TurnEnded: {"turn": 3, "number": 5},
    ev.Charged: {"usage": Usage(1000, 500, 200, 0.25), "day": "2026-03-30"},
    ev.Stopping: {"cause": "operator", "detail": "stopped by hand"},
    ev.EffectPlanned: {"effect_id": "r1.handoff", "verb": "transition", "argument": "Review"},
    ev.EffectDone: {"effect_id": "r1.handoff", "verb": "transition", "ok": False, "detail": "refused"},
    ev.RunEnded: {"status": "failed", "turns": 2, "error": "exit 1", "limited_until": NOW, "usage": Usage(1, 2)},
    ev.Settled: {"identifier": "D-1", "why": "exit 1", "retry": RETRY, "refund": "2026-03-30"},
    ev.RetryDropped: {"identifier": "D-1", "why": "the issue moved to Done"},
    ev.RetryDue: {"due_at": NOW, "why": "by hand"},
    ev.Parked: {"identifier": "D-1", "park": PARK},
    ev.Unparked: {"identifier": "D-1", "why": "by hand", "reset_budget": True},
    ev.Requested: {"identifier": "D-1", "retry": replace(RETRY, kind="started")},
    ev.ProviderPaused: {"provider": "command", "until": NOW, "detail": "too many requests"},
    ev.ProviderResumed: {"provider": "command", "why": "a run of it works"},
    ev.ToolCalled: {"tool": "tracker_api", "result": "success", "ms": 12.5},
    ev.ActedOn: {"identifier": "D-1", "by": "D-2", "by_run": "r2", "tool": "tracker_api", "state": "Done"},
    ev.Commanded: {"command_id": 1, "verb": "stop", "outcome": "done", "ok": True},
    ev.Noted: {"level": "warning", "message": "something", "detail": "odd"},
}


def sample(kind: type[ev.AnyEvent]) -> Any:
    return kind(at=NOW + 0.123456789, issue_id="1", run_id="r1", **SAMPLES[kind])


def said(kind: type[ev.AnyEvent], **more: Any) -> str:
    made: Any = kind(at=NOW, issue_id="1", run_id="r1", **{**SAMPLES[kind], **more})
    return narrate(made).text


def test_there_is_a_sample_of_every_kind():
    assert set(SAMPLES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_survives_the_log(kind):
    event = sample(kind)
    assert ev.decode(ev.encode(event)) == event
    assert ev.decode(ev.encode(event).decode()) == event


@given(at=st.floats(0, 1e11), text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_time_and_any_text_survive_the_log(at, text):
    note = ev.Noted(at=at, issue_id=text, level="info", message=text, detail=text)
    assert ev.decode(ev.encode(note)) == note


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_that_the_log_can_hold_is_encodable_as_it_is(kind):
    event = sample(kind)
    found, text = ev.encodable(event)
    assert found is event
    assert text == ev.encode(event).decode()


@given(before=st.text(), after=st.text())
def test_lone_surrogates_are_replaced_wherever_they_stand(before, after):
    text = f"{before}\ud800{after}"
    replaced = text.encode("utf-8", "replace").decode()
    for event in (
        ev.Noted(at=NOW, level="info", message=text, detail="fine"),
        ev.IssueSeen(at=NOW, view=view(title=text, blocked_by=(text, "D-2"))),
        ev.Settled(at=NOW, identifier="D-1", why=text, park=replace(PARK, reason=text)),
    ):
        encodable, line = ev.encodable(event)
        assert ev.decode(line) == encodable
    encodable, _ = ev.encodable(ev.Noted(at=NOW, level="info", message=text, detail="fine"))
    assert encodable == ev.Noted(at=NOW, level="info", message=replaced, detail="fine")


def test_kinds_have_names_of_their_own():
    assert len({ev.kind_of(sample(kind)) for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_is_a_sentence(kind):
    sentence = narrate(sample(kind))
    assert len(sentence.text.split()) > 1 or kind is ev.Noted
    assert sentence.text != ev.kind_of(sample(kind)), "the name of an event is no sentence"
    assert not sentence.text.endswith((":", " "))


@pytest.mark.parametrize("kind", KINDS)
def test_no_sentence_hangs_in_the_air_when_there_is_nothing_to_add(kind):
    bare: dict[str, Any] = {
        name: "" for name in ("detail", "error", "reason", "why", "archive") if name in kind.__struct_fields__
    }
    if kind is ev.Settled:
        bare = {"why": "", "retry": None}
    if kind not in (ev.RetryDropped, ev.RetryDue, ev.Unparked):  # these never come without a reason
        assert not said(kind, **bare).rstrip().endswith(":")


def test_runs_are_told_with_their_verdict():
    assert said(ev.RunEnded, turns=1) == "run failed after 1 turn: exit 1"
    assert said(ev.RunEnded, status="succeeded", soft_stop="blocked", reason="no key") == (
        "run ended after 2 turns, signal blocked: no key"
    )


def test_settlements_are_told_with_what_follows():
    """What went wrong was told by the verdict; a failure is not told twice."""
    assert said(ev.Settled) == "next try (error) at 2026-03-30 23:40:10Z"
    assert (
        said(ev.Settled, why="the agent goes on") == "next try (error) at 2026-03-30 23:40:10Z: the agent goes on"
    )
    failed = replace(PARK, kind="error", reason="exit 1")
    assert "exit 1" not in said(ev.Settled, retry=None, park=failed, why="exit 1")
    assert "exit 1" not in said(ev.Skipped, rule="parked", detail="exit 1")
    assert said(ev.Settled, retry=None, park=PARK) == "parked (signal): a key is missing"
    assert said(ev.Settled, retry=None) == "released: exit 1"


@pytest.mark.parametrize("cause", sorted({"new", "changed", "budget", *get_args(RetryKind)}))
def test_every_cause_of_a_start_has_words(cause):
    assert CAUSES[cause] in said(ev.Claimed, cause=cause)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_that_keeps_an_issue_waiting_has_words(rule):
    assert RULES[rule] in said(ev.Skipped, rule=rule)


def test_tool_calls_are_told_with_their_duration():
    """EXT-14"""
    assert said(ev.ToolCalled) == "tool tracker_api: success after 12 ms"


def test_tool_calls_are_told_with_what_they_acted_on():
    """EXT-14: operation, target, state and kind of failure; a log from before these were kept still reads."""
    asked = {"operation": "transition_issue", "target": "D-2", "state": "Done"}
    assert said(ev.ToolCalled, **asked) == "tool tracker_api: success after 12 ms (transition_issue D-2 to Done)"
    failed = said(ev.ToolCalled, **asked, result="error", error="tracker_not_found")
    assert failed == "tool tracker_api: error after 12 ms (transition_issue D-2 to Done: tracker_not_found)"
    old = ev.decode(b'{"kind":"tool","at":1.0,"issue_id":"1","run_id":"r1","tool":"t","result":"error","ms":1.0}')
    assert isinstance(old, ev.ToolCalled)
    assert (old.operation, old.target, old.state, old.error, old.witnessed) == ("", "", "", "", False)


def test_who_acted_on_an_issue_is_told_by_name():
    """EXT-14"""
    assert said(ev.ActedOn) == "D-2's agent (run r2) moved it to Done with tracker_api"
    assert "whether that happened is not known: internal_error" in said(ev.ActedOn, error="internal_error")


def test_what_went_wrong_is_louder_than_what_went_well():
    assert narrate(sample(ev.RunEnded)).level == "warning"
    assert narrate(sample(ev.Parked)).level == "warning"
    assert narrate(sample(ev.EffectDone)).level == "warning"
    assert narrate(sample(ev.Claimed)).level == "info"
    assert narrate(sample(ev.IssueSeen)).level == "debug"
