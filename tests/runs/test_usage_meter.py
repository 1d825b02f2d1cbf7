"""What a run used is summed up, believed within bounds, and priced once."""

from __future__ import annotations

import math

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core.conclude import Outcome
from sortie.core.model import TokenRates, Usage
from sortie.runs.channel import Channel
from sortie.runs.messages import Ended, UsageTotal
from sortie.runs.usage_meter import UsageMeter

RATES = TokenRates(input_per_mtok=1.0, output_per_mtok=10.0)
TOLD = Usage(1_000_000, 100_000)


def meter_with(rates):
    return UsageMeter(rates, Channel(), on_told=lambda: None)


async def test_reports_are_summed_up():
    meter = meter_with(None)
    meter.add(Usage(1, 2, 1, 0.5))
    meter.add(Usage(10, 20, 5, 0.25))
    assert meter.close() == Usage(11, 22, 6, 0.75)


async def test_tokens_without_a_price_are_priced_by_the_rates():
    meter = meter_with(RATES)
    meter.add(TOLD)
    assert meter.total.cost_usd == 2.0
    assert meter.close().cost_usd == 2.0


async def test_the_price_that_the_agent_tells_counts():
    meter = meter_with(RATES)
    meter.add(Usage(TOLD.input, TOLD.output, 0, 0.3))
    assert meter.close().cost_usd == 0.3


async def test_tokens_whose_price_follows_are_not_priced_twice():
    meter = meter_with(RATES)
    meter.add(TOLD, cost_follows=True)
    assert meter.total.cost_usd == 0.0
    meter.add(Usage(cost_usd=0.3))
    assert meter.close() == Usage(TOLD.input, TOLD.output, 0, 0.3)


async def test_a_price_that_never_came_is_made_up_for_at_the_end():
    meter = meter_with(RATES)
    meter.add(TOLD, cost_follows=True)
    assert meter.close().cost_usd == 2.0
    assert meter.close().cost_usd == 2.0


@pytest.mark.parametrize("cost", [-1.0, math.nan])
async def test_what_cannot_be_is_nothing(cost):
    meter = meter_with(None)
    meter.add(Usage(-5, -5, -5, cost))
    assert meter.close() == Usage()


async def test_the_sum_is_told_by_itself_and_only_when_it_has_changed():
    channel, told = Channel(), anyio.Event()
    meter = UsageMeter(None, channel, on_told=told.set)
    meter.add(Usage(1))
    meter.add(Usage(2))
    with anyio.fail_after(30):
        await told.wait()
    meter.tell()
    meter.add(Usage(4))
    meter.close()
    channel.tell(Ended(outcome=Outcome(status="succeeded", turns=0)))
    heard = [one.message async for one in channel.messages()]
    assert heard[:-1] == [UsageTotal(total=Usage(3)), UsageTotal(total=Usage(7))]


amounts = st.integers(-(10**20), 10**20)


@given(st.lists(st.builds(Usage, amounts, amounts, amounts, st.floats()), max_size=5), st.booleans())
async def test_the_sum_fits_into_a_store_whatever_is_told(reports, follows):
    meter = meter_with(RATES)
    for report in reports:
        before = meter.total
        meter.add(report, cost_follows=follows)
        assert meter.total.input >= before.input
        assert meter.total.cost_usd >= before.cost_usd
    total = meter.close()
    assert 0 <= total.input <= 10**12
    assert 0 <= total.output <= 10**12
    assert math.isfinite(total.cost_usd)
