"""The agent of each task: what the task says over what the defaults say, checked by the agent's own kind."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigurationError
from ..plugins import kinds, load_agent
from ..workflow.problems import did_you_mean
from .plan import TaskAgent
from .reading import Item, Reading

_DEFAULTS = "defaults.agent"


class TaskAgents:
    """`base` is the directory of the plan file, where commands are found."""

    def __init__(self, defaults: Item | None, base: Path, reading: Reading) -> None:
        self._defaults = defaults.values if defaults else {}
        self._base = base
        self._reading = reading
        self._kinds = kinds()["agent"]
        self._usual: TaskAgent | None = None
        if defaults:
            self._usual = self._built(self._defaults, _DEFAULTS, defaults.refused)

    def of(self, item: Item | None) -> TaskAgent:
        """That of a task with this `agent`. One of another kind takes nothing of the defaults."""
        if item is not None:
            same = item.values.get("kind", self._defaults.get("kind")) == self._defaults.get("kind")
            return self._built({**(self._defaults if same else {}), **item.values}, item.path, item.refused)
        if self._usual is None:
            self._usual = self._built({}, _DEFAULTS, frozenset())
        return self._usual

    def _built(self, values: dict[str, object], path: str, refused: frozenset[str]) -> TaskAgent:
        agent = TaskAgent(**values)  # type: ignore[arg-type]
        # What was refused is not known: the rest could seem wrong for want of it.
        if not refused:
            self._check(agent, path)
        return agent

    def _check(self, agent: TaskAgent, path: str) -> None:
        from ..agents.agent import AgentSettings

        if agent.kind not in self._kinds:
            fix = did_you_mean(agent.kind, self._kinds) or f"; use one of: {', '.join(self._kinds)}"
            self._refuse(path, "kind", f'there is no agent "{agent.kind}" here{fix}')
            return
        settings = AgentSettings(
            kind=agent.kind,
            command=agent.command,
            options=agent.all_options,
            base=self._base,
            read_timeout=agent.read_timeout,
        )
        try:
            found = load_agent(agent.kind).check(settings)
        except ConfigurationError as error:
            found = [("agent.kind", str(error))]
        for key, message in found:
            section, _, rest = key.replace("[", ".").replace("]", "").partition(".")
            is_model = rest == "model" and bool(agent.model)
            self._refuse(path, rest if section == "agent" or is_model else f"options.{rest}", message)

    def _refuse(self, path: str, key: str, message: str) -> None:
        """Where it is written: at the task, or at the defaults."""
        place = f"{path}.{key}"
        if not self._reading.is_written(place) and self._reading.is_written(f"{_DEFAULTS}.{key}"):
            place = f"{_DEFAULTS}.{key}"
        self._reading.refuse(place, message)
