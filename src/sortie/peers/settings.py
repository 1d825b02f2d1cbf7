"""peers.yaml: which program each agent is, what a turn may use, what follows work outside of a lane.

Who is in the session and who owns what stands in CHARTER.md; this file says how its agents are run here. It is read
with every mistake and its line at once, and nothing outside is contacted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct

from ..agents.agent import AgentSettings
from ..core.model import Limits
from ..errors import ConfigurationError
from ..plugins import kinds, load_agent
from ..workflow.document import Extent, Tree, decode, read_file, read_tree
from ..workflow.fields import Milliseconds, Options, PlainText, Texts
from ..workflow.problems import Problem, Problems, did_you_mean
from ..workflow.settings import Reading
from ..workflow.variables import Variables
from .roster import MAINTAINER, fold, problem_with_name

EXTENT = Extent(noun="the settings", key="agents", first_line=1, most_values=5_000)


# As messages of agents call them, which know only of one.
_KEY = re.compile(r"(?<![\w.])agent\.(?=(?:kind|command|model|env|options|(?:read|turn|stall)_timeout_ms)\b)")


class PeerAgent(Struct, frozen=True, kw_only=True):
    """How one agent is run. `options` are those of its kind, `env` names the variables that are passed on to it,
    `credential` the account that pays. Times are seconds; a `stall_timeout` of 0 is none."""

    kind: Annotated[str, PlainText(filled=True)] = "claude-code"
    command: str = ""
    model: str = ""
    credential: str = ""
    options: Annotated[dict[str, Any], Options()] = {}
    env: Annotated[tuple[str, ...], Texts(of_variables=True)] = ()
    read_timeout: Annotated[float, Milliseconds(least=1)] = 60.0
    turn_timeout: Annotated[float, Milliseconds(least=1)] = 3600.0
    stall_timeout: Annotated[float, Milliseconds(least=0)] = 300.0

    @property
    def all_options(self) -> dict[str, Any]:
        """With the model, which every kind that has a choice takes as an option."""
        return {**self.options, **({"model": self.model} if self.model else {})}

    def settings(self, base: Path) -> AgentSettings:
        return AgentSettings(
            kind=self.kind,
            command=self.command,
            options=self.all_options,
            base=base,
            read_timeout=self.read_timeout,
        )


class TurnLimits(Struct, frozen=True, kw_only=True):
    """What one turn may use; it is known when the turn is over, so a turn may end above it, and then says so."""

    tokens: int | None = 20_000_000
    usd: float | None = 20.0


class DayLimits(Struct, frozen=True, kw_only=True):
    """What all turns of one day may use together."""

    turns: int | None = 200
    tokens: int | None = 200_000_000
    usd: float | None = 200.0


class PeerBudget(Struct, frozen=True, kw_only=True):
    """0 and `unlimited` both mean: no bound."""

    per_turn: TurnLimits = TurnLimits()
    per_day: DayLimits = DayLimits()

    @property
    def day(self) -> Limits:
        return Limits(turns=self.per_day.turns, tokens=self.per_day.tokens, usd=self.per_day.usd)

    @property
    def turn(self) -> Limits:
        return Limits(tokens=self.per_turn.tokens, usd=self.per_turn.usd)


class PeerSettings(Struct, frozen=True, kw_only=True):
    """`violations`: what an agent changed outside of its lane is reported, or taken back and kept in a git ref."""

    maintainer: Annotated[str, PlainText(filled=True)] = MAINTAINER
    agents: dict[str, PeerAgent] = {}
    violations: Literal["report", "revert"] = "report"
    budget: PeerBudget = PeerBudget()

    def find(self, name: str) -> str | None:
        """The agent of this name as it is written here; upper and lower case do not matter."""
        return next((known for known in self.agents if fold(known) == fold(name)), None)


def in_words_of_the_file(said: str, agent: str) -> str:
    """A message about the program of an agent, with the keys that it names as they are called in peers.yaml."""
    return _KEY.sub(lambda _: f"agents.{agent}.", said)


def load_settings(path: Path) -> PeerSettings:
    """The settings; raises `ConfigurationError` with one line for each problem."""
    settings, problems = examine_settings(path)
    if settings is not None:
        return settings
    first, *others = [str(problem) for problem in problems if problem.severity == "error"]
    count = f"{path} has {len(others) + 1} problems; the first is: " if others else ""
    raise ConfigurationError(count + first, problems=(first, *others))


def examine_settings(path: Path, content: bytes | None = None) -> tuple[PeerSettings | None, list[Problem]]:
    """The settings, None where there are errors, and everything that was found; never raises for what is wrong with
    the file. `content` is what would stand there, where it does not yet."""
    problems = Problems(str(path))
    if content is None:
        content = read_file(path, problems)
    text = decode(content, problems) if content is not None else None
    tree = read_tree(text, problems, EXTENT) if text is not None else None
    settings = _read(path, tree, problems) if tree is not None else None
    found = problems.in_order()
    return (None if any(problem.severity == "error" for problem in found) else settings), found


def _read(path: Path, tree: Tree, problems: Problems) -> PeerSettings:
    reading = Reading(path.absolute().parent, tree, Variables({}), problems)
    settings = reading.whole(PeerSettings())
    if not settings.agents and reading.is_accepted("agents"):
        missing = "is missing: name at least one agent and its kind"
        problems.error(missing, key="agents", line=tree.line_of("agents"))
    seen = {fold(settings.maintainer): "the maintainer"}
    for name, agent in settings.agents.items():
        key = f"agents.{name}"
        if unfit := problem_with_name(name):
            problems.error(f"the name {unfit}", key=key, line=tree.line_of(key))
        elif other := seen.get(fold(name)):
            problems.error(f"is the name of {other} already", key=key, line=tree.line_of(key))
        seen[fold(name)] = f"the agent {name}"
        if reading.is_accepted(key, *(f"{key}.{each}" for each in ("kind", "command", "model", "options"))):
            _check_agent(agent, key, path, tree, problems)
    return settings


def _check_agent(agent: PeerAgent, key: str, path: Path, tree: Tree, problems: Problems) -> None:
    """What its own kind finds wrong with it."""
    known = kinds()["agent"]
    if agent.kind not in known:
        fix = did_you_mean(agent.kind, known) or f"; use one of: {', '.join(known)}"
        found = [("agent.kind", f'there is no agent "{agent.kind}" here{fix}')]
    else:
        try:
            found = list(load_agent(agent.kind).check(agent.settings(path.absolute().parent)))
        except ConfigurationError as error:
            found = [("agent.kind", str(error))]
    for place, message in found:
        section, _, rest = place.replace("[", ".").replace("]", "").partition(".")
        is_own = section == "agent" or (rest == "model" and agent.model)
        inner = f"{key}.{rest}" if is_own else f"{key}.options.{rest}"
        problems.error(message, key=inner, line=tree.line_of(inner))
