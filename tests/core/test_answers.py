"""What a person answers: it frees the issue, is told in every turn until one completes, and never again."""

from __future__ import annotations

import pytest

from sortie.core import events as ev
from sortie.core.decide import Tick, decide
from sortie.core.narrate import narrate
from sortie.core.observe import Look, held_elsewhere, observe
from sortie.core.operator import LONGEST_ANSWER, Reply, answer, problem_with_answer
from sortie.core.policy import Spent
from sortie.core.ready_queue import ReadyQueue
from sortie.core.schedule import Schedule

from .facts import NOW, parked, running, schedule, verdict, view, waiting


def said(
    made: Schedule, text: str = "Use port 8080.", number: int = 1, name: str = "D-1", now: float = NOW
) -> Reply:
    reply = answer(made, name, text, now, answer_id=f"a{number}", comment=f"A person answered: {text}")
    for event in reply.events:
        made.apply(event)
    return reply


def begin(made: Schedule, turn: int = 1, run_id: str = "r1") -> list[str]:
    """What the agent is told with this turn."""
    made.apply(ev.TurnStarted(at=NOW, issue_id="1", run_id=run_id, turn=turn, day=""))
    return [one.text for one in made.answers_told(run_id, turn)]


def complete(made: Schedule, turn: int = 1, run_id: str = "r1") -> None:
    made.apply(ev.TurnEnded(at=NOW, issue_id="1", run_id=run_id, turn=turn))


@pytest.mark.parametrize("name", ["1", "D-1", "#1"])
def test_an_answer_frees_a_parked_issue_and_is_a_comment_once(name):
    made = schedule(parked(attempt=3, session_id="s1"))
    reply = said(made, name=name)
    assert (reply.ok, reply.issue_id) == (True, "1")
    assert reply.outcome == "D-1 is free to start again; its agent gets your answer."
    answered, planned, freed = reply.events
    assert isinstance(answered, ev.Answered) and answered.text == "Use port 8080."
    assert isinstance(planned, ev.EffectPlanned)
    assert (planned.effect_id, planned.verb, planned.run_id) == ("a1.answer", "comment", "")
    assert isinstance(freed, ev.Unparked) and freed.why == "answered"
    assert made.parked == {}
    (claimed,) = decide(made, Tick(now=NOW, candidates_known=True))
    assert isinstance(claimed, ev.Claimed)
    assert (claimed.attempt, claimed.session_id, claimed.cause) == (4, "s1", "unparked")


@pytest.mark.parametrize("before", [parked(), running()])
def test_the_same_answer_twice_is_told_and_shown_once(before):
    """A person types the command again, or two do."""
    made = schedule(before)
    assert said(made, number=1).events
    assert said(made, number=2) == Reply(True, "D-1 has this answer already; its agent gets it once.", issue_id="1")
    assert said(made, "Or 9090.", number=3).events
    assert [one.text for one in made.answers_for("1")] == ["Use port 8080.", "Or 9090."]


def test_the_same_answer_counts_again_once_a_turn_has_worked_with_it():
    made = schedule(running())
    said(made, number=1)
    begin(made)
    assert said(made, number=2).events == ()
    complete(made)
    assert said(made, number=3).events


@pytest.mark.parametrize("kind", ["signal", "error", "operator", "budget"])
def test_whatever_it_is_parked_for_it_goes_on_as_after_unpark(kind):
    made = schedule(parked(kind=kind))
    made.spent["1"] = Spent(sessions=3)
    assert said(made).ok
    assert made.spent_on("1") == (Spent() if kind == "budget" else Spent(sessions=3))
    assert isinstance(decide(made, Tick(now=NOW, candidates_known=True))[0], ev.Claimed)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (schedule(running()), "is running; its agent gets your answer with its next turn"),
        (schedule(running(stop="stalled")), "is not running now; its agent gets your answer when it starts"),
        (schedule(running(ending=verdict())), "is not running now; its agent gets your answer when it starts"),
        (schedule(waiting(due_at=NOW + 60)), "is not running now"),
        (schedule(view()), "is not running now"),
        (schedule(view(state="Backlog")), "is not running now"),
    ],
)
def test_an_issue_that_is_not_parked_is_answered_too_and_otherwise_left_alone(made, words):
    reply = said(made)
    assert reply.ok
    assert words in reply.outcome
    assert [type(event) for event in reply.events] == [ev.Answered, ev.EffectPlanned]


def test_a_source_without_a_place_for_comments_gets_none():
    made = schedule(parked())
    reply = answer(made, "D-1", "yes", NOW, answer_id="a1", comment="")
    assert [type(event) for event in reply.events] == [ev.Answered, ev.Unparked]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("D-9", "yes", "D-9 is not known; `sortie status` lists what is."),
        ("D-1", "", "The answer is empty"),
        ("D-1", " \n\t ", "The answer is empty"),
        ("D-1", "x" * (LONGEST_ANSWER + 1), "longer than 64 KiB"),
        ("D-1", "ü" * (LONGEST_ANSWER // 2 + 1), "longer than 64 KiB"),
    ],
)
def test_what_is_no_answer_is_refused_with_a_sentence_and_changes_nothing(name, text, words):
    made = schedule(parked())
    reply = said(made, text, name=name)
    assert not reply.ok
    assert words in reply.outcome
    assert reply.events == ()


@pytest.mark.parametrize("more", [(), (parked(),)])
def test_an_answer_to_what_is_over_is_refused_because_nobody_would_get_it(more):
    made = schedule(view(state="Done"), *more)
    refused = Reply(False, "D-1 is in Done, so no agent is started for it; reopen it first.", issue_id="1")
    assert said(made) == refused


def test_the_longest_answer_is_one_and_half_characters_are_no_trouble():
    assert problem_with_answer("x" * LONGEST_ANSWER) == ""
    assert problem_with_answer("\ud800") == ""


def test_an_answer_is_told_in_every_turn_until_one_completes_and_never_again():
    made = schedule(running())
    said(made)
    assert begin(made) == ["Use port 8080."]
    assert begin(made, run_id="r2") == ["Use port 8080."]  # the first run was cut short
    complete(made, run_id="r2")
    assert begin(made, 2, run_id="r2") == []
    assert made.answers == {}


def test_what_comes_while_a_turn_is_under_way_waits_for_the_next_one():
    made = schedule(running())
    said(made, "first", 1)
    assert begin(made) == ["first"]
    said(made, "second", 2)
    assert [one.text for one in made.answers_told("r1", 1)] == ["first"], "the same when it is asked for again"
    complete(made)
    assert begin(made, 2) == ["second"]


def test_several_answers_are_told_in_their_order_also_by_a_clock_that_was_set_back():
    made = schedule(running())
    said(made, "first", 2, now=NOW)
    said(made, "second", 1, now=NOW - 3600)
    assert begin(made) == ["first", "second"]
    said(made, "third", 0, now=NOW - 7200)
    assert begin(made, run_id="r2") == ["first", "second", "third"]


def test_an_answer_belongs_to_its_issue():
    made = schedule(running(), running("2"))
    said(made, name="D-2")
    assert begin(made) == []
    assert len(made.answers_for("2")) == 1


def test_an_answer_that_no_turn_took_up_is_followed_and_ends_with_its_issue():
    """It came while the agent handed over; were the issue to come back, it would answer another question."""
    made = schedule(view("1", state="In Review"), view("2", state="Backlog"), view("3"))
    for number in (1, 2, 3):
        said(made, number=number, name=f"D-{number}")
    assert held_elsewhere(made, {"3"}) == {"1", "2"}
    for state in ("Done", None):
        looked = Look(issues={}, states={"2": "Backlog", **({"1": state} if state else {})})
        for event in observe(made, looked, NOW):
            made.apply(event)
        assert held_elsewhere(made, set()) == {"2"}
    assert [one.issue_id for one in made.answers.values()] == ["2"]


def test_an_agent_that_stops_to_ask_before_it_heard_an_answer_goes_on_at_once():
    """The person was faster: the issue is parked for a question, and its answer is there."""
    made = schedule(running(session_id="s1"))
    begin(made)
    said(made)
    complete(made)
    queue = ReadyQueue.of(made)
    made.apply(verdict(soft_stop="blocked"))
    park = ev.Park(kind="signal", reason="which port?", fingerprint="before", attempt=1, session_id="s1")
    settled = ev.Settled(at=NOW, issue_id="1", run_id="r1", identifier="D-1", why="which port?", park=park)
    queue.touch(made, settled, made.apply(settled))
    (claimed,) = decide(made, Tick(now=NOW, candidates_known=True), queue)
    assert isinstance(claimed, ev.Claimed)
    assert (claimed.cause, claimed.session_id) == ("answered", "s1")
    made.apply(claimed)
    assert begin(made, run_id=claimed.run_id) == ["Use port 8080."]


@pytest.mark.parametrize("kind", ["error", "operator"])
def test_an_answer_from_before_does_not_free_what_failed_or_was_stopped(kind):
    made = schedule(running())
    said(made)
    del made.running["1"]
    made.parked["1"] = parked(kind=kind)
    (skipped,) = decide(made, Tick(now=NOW, candidates_known=True))
    assert isinstance(skipped, ev.Skipped)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Use\n  port 8080.", "a person answered: Use port 8080."),
        ("x" * 1000, f"a person answered: {'x' * 300} …"),
        (" " * 1000 + "late", "a person answered: late"),
    ],
)
def test_an_answer_is_told_in_one_bounded_line(text, told):
    assert narrate(ev.Answered(at=NOW, issue_id="1", answer_id="a1", text=text)).text == told


@pytest.mark.parametrize(("ok", "level"), [(True, "info"), (False, "warning")])
def test_a_comment_that_was_not_made_is_a_warning(ok, level):
    done = ev.EffectDone(at=NOW, issue_id="1", effect_id="a1.answer", verb="comment", ok=ok, detail="")
    sentence = narrate(done)
    assert sentence.level == level
    assert sentence.text == f"comment with the answer in the tracker {'done' if ok else 'failed'}"
