"""Whatever people, agents, operators and crashes do, in whatever order: the laws of scheduling always hold."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.core import events as ev
from sortie.core.policy import Policy
from sortie.core.replay import replay

from .chance import POLICIES, STORIES, Step, happen, settle_everything
from .simulation import Simulation


@settings(max_examples=120, deadline=None)
@given(
    st.lists(POLICIES, min_size=1, max_size=3), st.booleans(), st.booleans(), st.sampled_from(range(10)), STORIES
)
def test_the_laws_hold_at_every_step_and_all_work_comes_to_an_end(
    policies: list[Policy], moves: bool, incremental: bool, issues: int, story: list[Step]
) -> None:
    """A2O-09 among them: what is parked starts only after a change; the laws themselves are in laws.py."""
    with closing(Simulation(policies[0], "In Progress" if moves else "", incremental=incremental)) as sim:
        sim.open_issues(issues)
        happen(sim, story, policies)
        settle_everything(sim)
        assert not sim.live
        assert not sim.schedule.running
        assert all(not sim.people.issues[key].title for key in sim.schedule.waiting), "waits for nothing"
        for issue_id, issue in sim.people.candidates(sim.schedule.policy).items():
            assert issue_id in sim.schedule.parked or not issue.title, "neither done nor given up"
        assert [*replay(ev.decode(ev.encode(event)) for event in sim.log)] == []
