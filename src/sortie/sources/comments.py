"""What we tell people in the tracker, where the workflow asks for it."""

from __future__ import annotations

from ..core.conclude import Outcome
from ..core.model import Usage
from ..protocol.marked_text import harmless

LONGEST = 1500
# Servers take some 30,000 characters. The agent is told all of it.
LONGEST_ANSWER = 20_000


def on_dispatch(agent: str, attempt: int) -> str:
    return f"Sortie started attempt {attempt} with the {agent} agent."


def on_completion(outcome: Outcome, usage: Usage, seconds: float) -> str:
    if outcome.soft_stop:
        headline = f"The agent signalled `{outcome.soft_stop}`."
    else:
        headline = "The agent ended its turns without a signal."
    parts = [headline, _receipt(outcome, usage, seconds)]
    if outcome.reason:
        parts.insert(1, _quoted(outcome.reason))
    return "\n\n".join(parts)


def on_failure(outcome: Outcome, usage: Usage, seconds: float) -> str:
    return "\n\n".join([f"The run {outcome.status}: {_cut(outcome.error)}", _receipt(outcome, usage, seconds)])


def on_answer(text: str) -> str:
    """What a person answered an agent elsewhere than in the tracker."""
    quoted = "\n".join(f"> {line}".rstrip() for line in harmless(text[:LONGEST_ANSWER]).split("\n"))
    parts = ["A person answered the agent:", quoted[:LONGEST_ANSWER]]
    if max(len(text), len(quoted)) > LONGEST_ANSWER:
        parts.append("The rest of the answer is not shown here.")
    return "\n\n".join(parts)


def _receipt(outcome: Outcome, usage: Usage, seconds: float) -> str:
    turns = f"{outcome.turns} turn{'' if outcome.turns == 1 else 's'}"
    parts = [turns, f"{seconds:.0f} s"]
    if usage.total:
        parts.append(f"{usage.total:,} tokens")
    if usage.cost_usd:
        parts.append(f"${usage.cost_usd:.2f}")
    return ", ".join(parts) + "."


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in _cut(text).splitlines())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"
