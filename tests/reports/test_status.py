"""What needs a person comes first; what runs is told with what only the service knows; nothing reads the log."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from sortie.core import events as ev
from sortie.core.model import Park, Usage, View
from sortie.core.policy import day_of
from sortie.reports.status import Status, status_report
from sortie.workflow.loader import examine

from .scene import NOW, SECRET, hidden, steps


class Run(Struct, frozen=True):
    run_id: str
    turn: int = 4
    max_turns: int = 9
    quiet_seconds: float = 2.5
    usage: Usage = Usage(1000, 50, 0, 1.25)
    last_line: str = f"I use {SECRET}"
    model: str = "m-1"


class Live(Struct, frozen=True):
    running: tuple[Run, ...] = ()
    last_look_error: str = ""
    looks_failing_for: float = 0.0
    look_needs_person: bool = False
    store_trouble: str = ""
    store_troubled_since: float = 0.0


def seen(number: int, **more: Any) -> ev.IssueSeen:
    issue = str(number)
    fields: dict[str, Any] = {"title": f"Title {number} {SECRET}", "state": "To Do", **more}
    return ev.IssueSeen(at=NOW - 900, issue_id=issue, view=View(id=issue, identifier=f"A-{number}", **fields))


def parked(number: int, kind: Any, ago: float) -> ev.Parked:
    park = Park(kind=kind, reason=f"{kind} {SECRET}", fingerprint="")
    return ev.Parked(at=NOW - ago, issue_id=str(number), identifier=f"A-{number}", park=park)


def ran(number: int, *, ago: float, run: str = "", reason: str = "please look", **more: Any) -> list[ev.AnyEvent]:
    about: Any = {"issue_id": str(number), "run_id": run or f"r{number}"}
    at, ending = NOW - ago, {"status": "succeeded", "soft_stop": "needs-human-review", **more}
    return [
        ev.Claimed(at=at - 60, identifier=f"A-{number}", attempt=1, agent="mock", day=day_of(at), **about),
        ev.RunEnded(at=at, turns=1, reason=reason, **ending, **about),
        seen(number, state="In Review"),
        ev.Settled(at=at, identifier=f"A-{number}", why="handed over", **about),
    ]


def report(db: sqlite3.Connection, config: Any, **more: Any) -> Status:
    given: dict[str, Any] = {"broken": False, "service": None, "now": NOW, "hide": hidden, **more}
    return status_report(db, config=config, **given)


def test_questions_come_before_failures_and_who_waits_longest_first(filled, config):
    events = [*map(seen, range(1, 6)), parked(1, "operator", 5), parked(2, "error", 500)]
    events += [parked(3, "signal", 10), parked(4, "signal", 90), parked(5, "budget", 900)]
    needs = report(filled(events), config).needs_person
    assert [(need.kind, need.identifier) for need in needs] == [
        ("signal", "A-4"),
        ("signal", "A-3"),
        ("error", "A-2"),
        ("budget", "A-5"),
        ("operator", "A-1"),
    ]
    assert needs[0].since == NOW - 90
    assert needs[0].can_answer


def test_what_is_due_and_still_waits_says_what_holds_it(filled, config):
    """Its time is over: `due in 0 s` for an hour is no reason."""

    def failed(number: int, due_at: float, rule: str, detail: str) -> list[ev.AnyEvent]:
        ran_into, name = ran(number, ago=60, status="failed", soft_stop="", error="it broke"), f"A-{number}"
        retry = ev.Retry(kind="error", attempt=2, due_at=due_at, error="it broke")
        about: dict[str, Any] = {"issue_id": str(number), "identifier": name}
        settled = ev.Settled(at=NOW - 60, run_id=f"r{number}", why="", retry=retry, **about)
        skipped = ev.Skipped(at=NOW - 5, rule=rule, detail=detail, **about)
        return [seen(number), *ran_into[:2], settled, skipped]

    events = [
        *failed(1, NOW - 9, "no-slot", f"3 agents run already {SECRET}"),
        *failed(2, NOW + 9, "waiting", "error"),
        *failed(3, NOW - 1, "waiting", "error"),
    ]
    found = report(filled(events), config).retrying
    assert {one.identifier: (one.rule, one.detail) for one in found} == {
        "A-1": ("no-slot", "3 agents run already [redacted]"),
        "A-2": ("", ""),
        "A-3": ("", ""),
    }


def reviews(found: Status) -> list[tuple[str, str]]:
    return [(need.identifier, need.text) for need in found.needs_person if need.kind == "review"]


def test_what_was_handed_over_waits_for_a_review_until_somebody_moves_it_on(filled, config):
    events = [*ran(1, ago=60), *ran(2, ago=30), *ran(3, ago=9 * 86400)]
    assert reviews(report(filled(events), config)) == [(f"A-{n}", "please look") for n in (2, 1, 3)]
    accepted, again = seen(1, state="Done"), seen(3)
    assert reviews(report(filled([accepted, again]), config)) == [("A-2", "please look")]


def test_what_an_agent_handed_over_without_a_word_waits_for_a_review_too(filled, config):
    events = [*ran(1, ago=60, soft_stop="", reason=""), *ran(2, ago=50), *ran(2, ago=20, run="again", soft_stop="")]
    assert reviews(report(filled(events), config)) == [("A-2", "please look"), ("A-1", "handed over to In Review")]


def test_what_a_person_moved_there_waits_for_nobody(filled, config):
    events = [seen(1, state="In Review"), *ran(2, ago=60, status="cancelled")]
    assert reviews(report(filled(events), config)) == []


def test_a_broken_workflow_does_not_hide_what_waits_for_a_review(filled, config):
    """Where issues are handed over to is what the last service went by."""
    policy = ev.PolicySet(at=NOW, policy=config.policy())
    unreadable = examine(config.path.with_name("absent.md"), environ={}, trial=False).config
    found = report(filled([policy, *ran(1, ago=60)]), unreadable, broken=True)
    assert reviews(found) == [("A-1", "please look")]


def test_what_was_handed_over_is_shown_without_secrets(filled, config):
    (review,) = report(filled(ran(1, ago=100, reason=SECRET)), config).needs_person
    assert (review.kind, review.title, review.text) == ("review", "Title 1 [redacted]", "[redacted]")


def test_a_budget_that_is_used_up_and_an_agent_that_cannot_run_need_a_person(filled, config):
    events: list[ev.AnyEvent] = [*map(seen, (1, 2))]
    events += [ev.Skipped(at=NOW, issue_id=str(n), identifier=f"A-{n}", rule="day-budget") for n in (1, 2)]
    events.append(ev.ProviderPaused(at=NOW, provider="mock", until=NOW + 9, detail="gone", error_kind="agent_auth"))
    events.append(ev.ProviderPaused(at=NOW, provider="codex", until=NOW + 9, detail="later"))
    found = report(filled(events), config)
    assert [(need.kind, need.text) for need in found.needs_person] == [
        ("agent", "The mock agent cannot run: gone"),
        ("out-of-budget", "The budget of the day is used up; 2 issues wait for more."),
    ]
    assert [item.agent for item in found.paused] == ["codex", "mock"]


def test_an_agent_that_nobody_works_with_any_more_waits_for_nobody(filled, config):
    """The workflow names another one since: no run of the old one will show whether it works again."""
    faults = [
        ev.ProviderPaused(at=NOW, provider=name, until=NOW + 9, detail="gone", error_kind="agent_auth")
        for name in ("codex", "gemini/key", "claude-code")
    ]
    named = [seen(1, agent="gemini", provider="gemini/key"), seen(2)]
    db = filled([*named, *faults])
    assert [need.text for need in report(db, config).needs_person] == ["The gemini/key agent cannot run: gone"]
    assert len(report(db, config, broken=True).needs_person) == 3, "nobody knows the rules"


def test_an_agent_that_cannot_run_has_waited_since_its_fault_began(filled, config):
    """Each try that meets it again puts the next one off, and is no news."""
    fault: dict[str, Any] = {"provider": "mock", "detail": "gone", "error_kind": "agent_auth"}
    tries = [ev.ProviderPaused(at=NOW - ago, until=NOW, tries=n, **fault) for n, ago in enumerate((900, 500, 9), 1)]
    limit = ev.ProviderPaused(at=NOW - 2000, provider="mock", until=NOW - 1000, detail="later")
    (need,) = report(filled([limit, *tries]), config).needs_person
    assert (need.kind, need.since) == ("agent", NOW - 900)


def test_a_fault_that_was_mended_and_came_back_is_a_new_one(filled, config):
    fault: dict[str, Any] = {"provider": "mock", "until": NOW, "error_kind": "agent_auth", "tries": 1}
    mended = ev.ProviderResumed(at=NOW - 500, provider="mock", why="a run of it works")
    events = [ev.ProviderPaused(at=NOW - 900, **fault), mended, ev.ProviderPaused(at=NOW - 60, **fault)]
    (need,) = report(filled(events), config).needs_person
    assert need.since == NOW - 60


@pytest.mark.parametrize(
    ("rule", "ago", "expected"),
    [
        ("day-budget", 900.0, 900.0),
        ("whole-budget", 900.0, 900.0),
        # Of an earlier day there is no budget that could be used up; that of all issues together has no day.
        ("day-budget", 100_000.0, NOW % 86400),
        ("whole-budget", 100_000.0, 100_000.0),
    ],
)
def test_a_budget_has_been_used_up_since_it_held_back_the_first_issue(filled, config, rule, ago, expected):
    def held(number: int, at: float, what: str = rule) -> ev.Skipped:
        return ev.Skipped(at=at, issue_id=str(number), identifier=f"A-{number}", rule=what)

    events = [*map(seen, range(1, 4)), held(1, NOW - 200_000, "no-slot"), held(1, NOW - ago)]
    (need,) = report(filled([*events, held(2, NOW - 5), held(3, NOW - 4)]), config).needs_person
    assert (need.kind, need.since) == ("out-of-budget", NOW - expected)


@pytest.mark.parametrize(
    ("seconds", "needs_person", "is_told"), [(0.0, True, True), (59.0, False, False), (60.0, False, True)]
)
def test_a_tracker_that_cannot_be_used_needs_a_person_first(filled, config, seconds, needs_person, is_told):
    live = Live(last_look_error=f"refused {SECRET}", looks_failing_for=seconds, look_needs_person=needs_person)
    needs = report(filled([seen(1), parked(1, "signal", 10)]), config, live=live).needs_person
    assert [need.kind for need in needs] == [*(["tracker"] if is_told else []), "signal"]
    if is_told:
        assert needs[0].text == "The tracker cannot be used, so nothing new starts: refused [redacted]"
        assert (needs[0].since, needs[0].issue_id) == (NOW - seconds, "")


def test_a_store_that_cannot_be_written_needs_a_person_before_all_else(filled, config):
    live = Live(
        last_look_error="refused",
        look_needs_person=True,
        store_trouble=f"The disk of {SECRET} is full.",
        store_troubled_since=NOW - 5,
    )
    needs = report(filled([seen(1), parked(1, "signal", 10)]), config, live=live).needs_person
    assert [need.kind for need in needs] == ["store", "tracker", "signal"]
    assert needs[0].text == "The store cannot be written, so nothing new starts: The disk of [redacted] is full."
    assert (needs[0].since, needs[0].issue_id) == (NOW - 5, "")


def test_a_tracker_that_works_again_needs_nobody(filled, config):
    assert report(filled([]), config, live=Live()).needs_person == []


def test_a_run_is_told_with_what_its_service_says_and_without_it_as_not_heard(filled, config):
    claim = ev.Claimed(at=NOW - 30, issue_id="1", run_id="r1", identifier="A-1", attempt=2, agent="mock")
    db = filled([seen(1), claim])
    (run,) = report(db, config, live=Live((Run("r1"), Run("other")))).running
    assert (run.heard, run.last_line, run.tokens, run.cost_usd) == (True, "I use [redacted]", 1050, 1.25)
    assert (run.max_turns, run.quiet_seconds, run.model, run.age) == (9, 2.5, "m-1", 30.0)
    (silent,) = report(db, config).running
    assert (silent.heard, silent.last_line, silent.max_turns) == (False, "", config.policy().max_turns)
    assert (silent.tokens, silent.cost_usd) == (None, None), "nobody told, which is not nothing"


def test_of_a_run_that_is_not_heard_what_it_was_charged_is_told(filled, config):
    about: Any = {"at": NOW, "issue_id": "1", "day": day_of(NOW)}
    claim = ev.Claimed(at=NOW - 30, issue_id="1", run_id="r1", identifier="A-1", attempt=2, agent="mock")
    used = [Usage(1000, 50, 0, 1.25), Usage(100, 5, 0, 0.5)]
    charges = [ev.Charged(run_id="r1", usage=one, **about) for one in used]
    (run,) = report(filled([seen(1), claim, *charges]), config).running
    assert (run.heard, run.tokens, run.cost_usd) == (False, 1155, 1.75)


def test_programs_get_the_same_as_ever(filled, config):
    claim = ev.Claimed(at=NOW - 30, issue_id="1", run_id="r1", identifier="A-1", attempt=2, agent="mock")
    plain = msgspec.to_builtins(report(filled([seen(1), claim, seen(2)]), config).plain())
    assert list(plain) == [
        *("service", "running", "retrying", "parked", "paused", "totals", "workflow_broken", "ready", "held_back"),
        *("budget", "tool_calls", "tracker"),
    ]
    assert list(plain["running"][0]) == [
        *("issue_id", "identifier", "title", "run_id", "attempt", "turn", "agent", "session_id", "workspace"),
        *("pid", "started_at", "stopping"),
    ]
    assert [item["identifier"] for item in plain["ready"]] == ["A-2"]


def test_nothing_secret_is_in_it(filled, config):
    claim = ev.Claimed(at=NOW - 30, issue_id="1", run_id="r1", identifier="A-1", attempt=2, agent="mock")
    db = filled([seen(1), seen(2), claim, parked(2, "signal", 9)])
    assert SECRET.encode() not in msgspec.json.encode(report(db, config, live=Live((Run("r1"),))))


def test_of_a_broken_workflow_nothing_is_made_up(filled, config):
    policy = ev.PolicySet(at=NOW, policy=config.policy())
    found = report(filled([policy, seen(1)]), config, broken=True)
    assert (found.ready, found.held_back, found.budget.per_day, found.slots) == ([], [], None, None)


def test_while_a_service_runs_its_last_good_workflow_is_in_force(filled, config):
    """The file is of no use, and the rules of before are those that count."""
    policy = msgspec.structs.replace(config.policy(), max_concurrent=3, active_states=("To Do",))
    blocked = ev.Skipped(at=NOW, issue_id="2", identifier="A-2", rule="blocked-by", detail="A-1")
    unreadable = examine(config.path.with_name("absent.md"), environ={}, trial=False).config
    events = [ev.PolicySet(at=NOW, policy=policy), seen(1), seen(2), seen(3, state="Elsewhere"), blocked]
    found = report(filled(events), unreadable, broken=True, service={"pid": 1})
    assert [one.identifier for one in found.ready] == ["A-1"]
    assert [one.identifier for one in found.held_back] == ["A-2"]
    assert found.budget.per_day is not None and found.budget.per_day.usd == 50
    assert (found.slots, found.workflow_broken) == (3, True)


def test_it_reads_no_more_of_a_store_with_many_more_runs(stores, config):
    few, many = (steps(path, lambda db: report(db, config)) for path in stores)
    assert many < few * 1.2
