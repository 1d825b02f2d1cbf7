"""Blockers that only the full issue tells hold it: no run, no charge, no loop; it starts when they end."""

from __future__ import annotations

import anyio

from sortie.core import events as ev
from sortie.store.commands import add_commands

from ..sources.listing_tracker import issue


async def test_an_issue_whose_blockers_no_list_shows_starts_when_they_are_done(tracked):
    its = tracked(issue("a", "b"), issue("b", state="backlog"))
    async with its.running():
        settled = await its.heard.wait(ev.Settled, "a")
        assert (bool(settled.refund), settled.retry, settled.park) == (True, None, None)
        skipped = await its.heard.wait(ev.Skipped, "a")
        assert (skipped.rule, skipped.detail) == ("blocked-by", "B")
        await its.asked("list", 4)
        assert len(its.heard.all(ev.Claimed)) == 1, "it is not tried with every look"
        assert its.host.specs == {}
        assert its.why("a") == "It has not started because it waits for others: B."
        its.tracker.change("b", state="done")
        await its.heard.wait(ev.Settled, "a", 2)
    assert len(its.host.specs) == 1
    assert [claim.attempt for claim in its.heard.all(ev.Claimed)] == [1, 1]
    assert its.stored().spent_on("a").sessions == 1


async def test_after_a_restart_it_is_still_held_and_a_service_that_ends_by_itself_says_so(tracked):
    its = tracked(issue("a", "b"), issue("b", state="backlog"))
    with anyio.fail_after(30):
        for _ in range(2):
            summary = await its.run(until_idle=True)
            assert [view.blocked_by for view in summary.blocked] == [("B",)]
    assert len(its.heard.all(ev.Claimed)) == 1
    its.tracker.change("b", state="done")
    with anyio.fail_after(30):
        await its.run(until_idle=True)
    assert its.tracker.issues["a"].state == "review"


async def test_a_person_starts_it_in_spite_of_its_blockers(tracked):
    its = tracked(issue("a", "b"), issue("b", state="backlog"))
    async with its.running():
        await its.heard.wait(ev.Skipped, "a")
        add_commands(its.directory / "store.db", "start", ["A"])
        await its.heard.wait(ev.Settled, "a", 2)
    assert len(its.host.specs) == 1


async def test_a_chain_is_worked_off_in_its_order(tracked):
    """Each is asked about once more for each look that it waits, and started once."""
    its = tracked(issue("a", "b"), issue("b", "c"), issue("c"))
    async with its.running():
        for name in ("c", "b", "a"):
            while its.tracker.issues[name].state != "review":
                await anyio.sleep(0.01)
            its.tracker.change(name, state="done")
        while its.orchestrator.report().running:
            await anyio.sleep(0.01)
    assert [spec.issue.id for spec in its.host.specs.values()] == ["c", "b", "a"]
    assert {name: its.stored().spent_on(name).sessions for name in "abc"} == dict.fromkeys("abc", 1)
