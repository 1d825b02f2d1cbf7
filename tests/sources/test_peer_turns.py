"""The source of turns: one item that was asked for, run once in the checkout, and over however its run ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from sortie.core.conclude import Outcome
from sortie.core.events import IssueSeen, View
from sortie.core.records import Claim
from sortie.core.schedule import Schedule
from sortie.errors import AgentError, TrackerError
from sortie.peers.place import Place, place_at
from sortie.peers.settings import PeerAgent, PeerSettings, load_settings
from sortie.peers.turn_register import Turn, TurnRegister
from sortie.runs.spec import decode_spec, encode_spec
from sortie.sources.peer_turns import AskedTurn, PeerSource, id_of, verdict
from sortie.sources.source import RunFacts
from sortie.tools.definitions import FOR_ISSUES, FOR_PEERS, FOR_TASKS

pytestmark = pytest.mark.anyio

CLAIM = Claim(
    issue_id="alice-0001", run_id="r1", identifier="alice-0001", attempt=1, claimed_at=1.0, agent="command"
)
FACTS = RunFacts(store_id="s", claim=CLAIM)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / ".git").mkdir()
    (tmp_path / "peers.yaml").write_text(
        "agents: {Alice: {kind: command, command: no-such-alice --fast, env: [TOKEN_X], turn_timeout_ms: 5000}}\n"
        "budget: {per_day: {turns: 3}, per_turn: {tokens: 7}}\n"
    )
    return place_at(tmp_path)


@pytest.fixture
def asked(place: Place) -> AskedTurn:
    turn = TurnRegister(place).begin(agent="Alice", kind="work", began=1.0, task="The parser")
    settings = load_settings(place.settings)
    return AskedTurn(turn=turn, agent=settings.agents["Alice"], prompt="Do it.", session_id="s1")


def source_of(place: Place, asked: AskedTurn | None = None) -> PeerSource:
    return PeerSource(place, load_settings(place.settings), {"TOKEN_X": "hidden", "PATH": "/bin:/usr/bin"}, asked)


def knowing(schedule: Schedule, name: str, state: str) -> Schedule:
    schedule.apply(IssueSeen(at=1.0, issue_id=name, view=View(id=name, identifier=name, title="", state=state)))
    return schedule


async def test_there_is_exactly_the_turn_that_was_asked_for(place, asked):
    """LOG-11: turns of before are over, whatever is on record of them."""
    source, schedule = source_of(place, asked), Schedule()
    for name, state in (("bob-0007", "asked"), ("bob-0006", "succeeded")):
        knowing(schedule, name, state)
    source.remember(schedule)
    look = await source.look(schedule)
    assert list(look.issues) == ["alice-0001"]
    assert look.states == {"bob-0007": "interrupted", "bob-0006": "succeeded"}
    issue = look.issues["alice-0001"]
    assert (issue.title, issue.state) == ("The parser", "asked") and await source.fetch("alice-0001") == issue


async def test_a_turn_that_is_over_is_not_offered_again(place, asked):
    source = source_of(place, asked)
    schedule = knowing(Schedule(), "alice-0001", "failed")
    source.remember(schedule)
    look = await source.look(schedule)
    assert not look.issues and look.states == {"alice-0001": "failed"}
    assert (await source.fetch("alice-0001")).state == "failed"


async def test_without_a_wish_there_is_nothing_to_do(place):
    source = source_of(place)
    assert not (await source.look(Schedule())).issues
    assert source.missing_agent() is None and source.secrets == ()
    with pytest.raises(TrackerError) as caught:
        await source.fetch("alice-0001")
    assert caught.value.kind == TrackerError.NOT_FOUND


async def test_it_is_run_once_in_the_checkout_itself(place, asked):
    """LOG-05: the register knows its run before anything of it starts."""
    source = source_of(place, asked)
    spec = source.spec_for(await source.fetch("alice-0001"), FACTS)
    (turn,) = TurnRegister(place).turns()
    assert (turn.run_id, turn.agent) == ("r1", "Alice")
    assert (spec.workspace.kind, spec.workspace.root) == ("shared checkout", str(place.root))
    assert (spec.limits.max_turns, spec.limits.turn_timeout) == (1, 5.0)
    assert (spec.prompt.text, spec.prompt.is_template, spec.signal) == ("Do it.", False, ".sortie/status")
    assert spec.tools and spec.tools.names == FOR_PEERS and spec.tools.credentials == "broker"
    assert spec.environment == ("TOKEN_X",) and spec.resume.session_id == ""
    assert decode_spec(encode_spec(spec)) == spec
    with pytest.raises(AgentError):
        source.spec_for(
            source._issue(asked).__class__(id="bob-1", identifier="bob-1", title="", state="asked"), FACTS
        )


def test_tools_of_issues_and_tasks_stay_what_they_are():
    assert not set(FOR_PEERS) & {"tracker_api", "message_send", "message_list", "workspace_history"}
    assert not {*FOR_ISSUES, *FOR_TASKS} & (set(FOR_PEERS) - {"sortie_status"})


def test_its_rules_are_those_of_peers_yaml(place, asked):
    policy = source_of(place, asked).policy
    assert policy.tries_once and policy.max_turns == 1 and policy.max_concurrent == 1
    assert (policy.per_day.turns, policy.per_issue.tokens, policy.turn_timeout) == (3, 7, 5.0)
    assert policy.is_active("asked")
    assert all(policy.is_terminal(state) for state in ("succeeded", "blocked", "failed", "interrupted"))


def test_its_keys_are_secrets_and_its_program_is_looked_for(place, asked):
    source = source_of(place, asked)
    assert source.secrets == ("hidden",)
    missing = source.missing_agent()
    assert missing is not None and "no-such-alice" in str(missing)
    there = AskedTurn(turn=asked.turn, agent=PeerAgent(kind="command", command="sh -c true"), prompt="")
    assert source_of(place, there).missing_agent() is None


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome(status="succeeded", turns=1), "succeeded"),
        (Outcome(status="succeeded", turns=1, soft_stop="blocked", reason="why"), "blocked"),
        (Outcome(status="succeeded", turns=1, soft_stop="needs-human-review"), "needs-human-review"),
        (Outcome(status="failed", turns=0, error="no"), "failed"),
        (Outcome(status="failed", turns=0, error="limit", error_kind="rate_limited"), "failed"),
        (Outcome(status="timed_out", turns=0, stop="timed_out"), "failed"),
        (Outcome(status="cancelled", turns=0, stop="crash"), "interrupted"),
        (Outcome(status="cancelled", turns=0, stop="shutdown"), "interrupted"),
        (Outcome(status="cancelled", turns=0, stop="budget", error="used up"), "failed"),
    ],
)
def test_every_end_is_the_end(place, asked, outcome, state):
    """LOG-11: nothing is tried again without a person."""
    word = source_of(place, asked).conclude(CLAIM, outcome, "asked", None)
    assert (word.then, word.state) == ("released", state) and word.why
    assert verdict(outcome)[0] == state


@pytest.mark.parametrize(
    ("agent", "name"),
    [("Alice", "alice-0007"), ("Bob the 2nd", "bob-the-2nd-0007"), ("Ünï", "n-0007"), ("—", "turn-0007")],
)
def test_a_turn_has_a_plain_name(agent, name):
    assert id_of(Turn(number=7, agent=agent, kind="work", began=0.0)) == name


async def test_tools_answer_only_the_turn_that_runs(place, asked):
    source = source_of(place, asked)
    answer = await source.call_tool("alice-0001", "worklog_since", {})
    assert answer["success"] is False, "before it has a run"
    source.spec_for(await source.fetch("alice-0001"), FACTS)
    assert (await source.call_tool("bob-0001", "worklog_since", {}))["success"] is False


def test_settings_without_agents_of_their_own_are_usable():
    assert PeerSettings(agents={"a": PeerAgent()}).find("A") == "a"
