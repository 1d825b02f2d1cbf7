"""The rules between settings: states that contradict each other, kinds that do not exist, bounds set twice."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from .config import Config
from .problems import Problems, did_you_mean
from .reading import Kinds, Reading
from .schema import SCHEMA, leaves
from .variables import ENV_FILE, NAME, OURS, PREFIX, Variables, override_name

# Of two names that both begin with the prefix, much is the same anyway.
_ALIKE = 0.75


class Checks:
    """Reports through the config's lines; a rule is left out where one of its values was refused already."""

    def __init__(self, config: Config, reading: Reading, problems: Problems) -> None:
        self._config = config
        self._reading = reading
        self._problems = problems

    def run(self, kinds: Kinds, variables: Mapping[str, str]) -> None:
        self._kinds(kinds)
        if self._sound("tracker", "tracker.active_states", "tracker.terminal_states"):
            self._state_lists()
            self._handoff_state()
            self._in_progress_state()
            self._slots_by_state()
        self._root()
        self._sessions()
        self._passed_variables(variables)

    def _kinds(self, kinds: Kinds) -> None:
        chosen = {"tracker": self._config.tracker.kind, "agent": self._config.agent.kind}
        if not chosen["tracker"] and self._sound("tracker", "tracker.kind"):
            self._error("tracker.kind", 'is missing; name the tracker, such as "file"')
        for part, kind in chosen.items():
            known = kinds.get(part, ())
            if kind and known and kind not in known and self._sound(f"{part}.kind"):
                fix = did_you_mean(kind, known) or f"; use one of: {', '.join(sorted(known))}"
                self._error(f"{part}.kind", f'there is no {part} "{kind}" here{fix}')

    def _root(self) -> None:
        root = str(self._config.workspace.root.resolve())
        if ":" in root and self._sound("workspace.root"):
            detail = f"git cannot be kept below {root}, because it takes the colon for the end of a path"
            self._error("workspace.root", f"{detail}; choose a directory without one")

    def _state_lists(self) -> None:
        tracker = self._config.tracker
        if not tracker.active_states and not tracker.terminal_states:
            self._error("tracker.active_states", "is missing; list the states in which an issue is to be worked on")
        for state in tracker.terminal_states:
            if _has(tracker.active_states, state):
                self._error("tracker.terminal_states", f'"{state}" is also in tracker.active_states')

    def _handoff_state(self) -> None:
        tracker = self._config.tracker
        key = "tracker.handoff_state"
        if not tracker.handoff_state or not self._sound(key):
            return
        if _has(tracker.active_states, tracker.handoff_state):
            self._error(key, f'"{tracker.handoff_state}" is also in tracker.active_states')
        elif _has(tracker.terminal_states, tracker.handoff_state):
            self._error(key, f'"{tracker.handoff_state}" is also in tracker.terminal_states')
        elif not tracker.active_states:
            self._error(key, "needs tracker.active_states; without them an issue handed off would start again")

    def _in_progress_state(self) -> None:
        tracker = self._config.tracker
        state, key = tracker.in_progress_state, "tracker.in_progress_state"
        if not state or not self._sound(key, "tracker.handoff_state"):
            return
        if state.lower() == tracker.handoff_state.lower():
            self._error(key, "must differ from tracker.handoff_state")
        elif _has(tracker.terminal_states, state):
            self._error(key, f'"{state}" is also in tracker.terminal_states')
        elif tracker.active_states and not _has(tracker.active_states, state):
            self._error(key, f'"{state}" must be one of tracker.active_states')

    def _slots_by_state(self) -> None:
        section = "agent.max_concurrent_agents_by_state"
        written = self._reading.values["agent"]["max_concurrent_agents_by_state"]
        seen: set[str] = set()
        for name in written:
            key = f"{section}.{name}"
            if name.lower() in seen:
                self._error(key, "is given twice; upper and lower case do not matter here")
            seen.add(name.lower())
            active = self._config.tracker.active_states
            if active and not _has(active, name):
                hint = did_you_mean(name, active)
                self._warning(key, f"is not one of tracker.active_states, so it has no effect{hint}")

    def _sessions(self) -> None:
        key = "agent.max_sessions"
        if not self._reading.is_given(key) or not self._sound(key):
            return
        if self._reading.is_given("budget.per_issue.sessions"):
            self._warning(key, "has no effect beside budget.per_issue.sessions; remove it")
        elif self._reading.values["agent"]["max_sessions"] == 0:
            bound = self._config.budget.per_issue.sessions
            self._warning(
                key,
                f"0 leaves the usual bound of {bound} sessions per issue; "
                "to lift it write budget: {per_issue: {sessions: unlimited}}",
            )

    def _passed_variables(self, variables: Mapping[str, str]) -> None:
        for name in self._config.agent.env:
            if name not in variables:
                self._warning("agent.env", f"{name} is not set, so the agent will not get it")

    def _sound(self, *keys: str) -> bool:
        return not self._reading.rejected.intersection(keys)

    def _error(self, key: str, message: str) -> None:
        self._problems.error(message, key=key, line=self._config.line_of(key))

    def _warning(self, key: str, message: str) -> None:
        self._problems.warning(message, key=key, line=self._config.line_of(key))


def check_variables(variables: Variables, workflow: str, problems: Problems) -> None:
    """Warn of those that look like a setting and are none. What the workflow mentions somebody wants to be so."""
    settings = {override_name(key): (key, field.overridable) for key, field in leaves()}
    expected = {*OURS, *(name for name, (_, overridable) in settings.items() if overridable)}
    expected |= {*NAME.findall(workflow)}
    for name in sorted(variables.values):
        if not name.startswith(PREFIX) or name in expected:
            continue
        close = difflib.get_close_matches(name, [*settings, ENV_FILE], n=1, cutoff=_ALIKE)
        if not close and name.removeprefix(PREFIX).partition("_")[0].lower() not in SCHEMA:
            continue  # of somebody's own tools, for all we know
        key, overridable = settings.get(close[0], ("", True)) if close else ("", True)
        hint = "" if not close else f'; did you mean "{close[0]}"?'
        if not overridable:
            hint = f"; {key} can only be set in the workflow"
        file, line = variables.origin(name)
        problems.warning(f"is not a setting and has no effect{hint}", key=name, file=file, line=line)


def _has(states: Iterable[str], state: str) -> bool:
    return any(state.lower() == other.lower() for other in states)
