"""What an agent's session says of its model, on its way to the engine."""

from __future__ import annotations

import pytest

from sortie.agents.agent import ModelNamed, Used
from sortie.core.conclude import Outcome
from sortie.core.model import Usage
from sortie.runs.channel import Channel
from sortie.runs.messages import Ended, UsageTotal
from sortie.runs.reporter import RunReporter
from sortie.runs.usage_meter import UsageMeter


class Reporting:
    """A run in which an agent reports; `told` are the totals that the engine hears of, when it is over."""

    def __init__(self, model: str = "") -> None:
        self.channel = Channel()
        self.meter = UsageMeter(None, self.channel, on_told=lambda: None, model=model)
        self.reporter = RunReporter(self.channel, "", self.meter)

    async def told(self) -> list[UsageTotal]:
        self.meter.close()
        self.channel.tell(Ended(outcome=Outcome(status="succeeded", turns=0)))
        heard = [one.message async for one in self.channel.messages()]
        return [message for message in heard if isinstance(message, UsageTotal)]


async def test_what_is_used_is_told_with_its_model():
    run = Reporting()
    run.reporter.report(ModelNamed("opus"))
    run.reporter.report(Used(Usage(3)))
    run.meter.tell()
    run.reporter.report(ModelNamed("haiku"))
    assert await run.told() == [UsageTotal(total=Usage(3), model="opus"), UsageTotal(total=Usage(3), model="haiku")]


async def test_the_model_that_was_asked_for_counts_until_the_agent_names_one():
    run = Reporting(model="opus")
    run.reporter.report(Used(Usage(3)))
    assert await run.told() == [UsageTotal(total=Usage(3), model="opus")]


@pytest.mark.parametrize("name", ["", "<b>x</b>", "\x1b[31mred", "x" * 200, "a\nb"])
async def test_what_nobody_calls_a_model_is_passed_over(name):
    run = Reporting(model="opus")
    run.reporter.report(ModelNamed(name))
    run.reporter.report(Used(Usage(1)))
    assert await run.told() == [UsageTotal(total=Usage(1), model="opus")]


async def test_an_agent_that_finds_new_names_for_its_model_without_end_is_not_listened_to():
    run = Reporting()
    for number in range(1000):
        run.reporter.report(ModelNamed(f"model-{number}"))
    run.reporter.report(Used(Usage(1)))
    assert await run.told() == [UsageTotal(total=Usage(1), model="model-19")]
