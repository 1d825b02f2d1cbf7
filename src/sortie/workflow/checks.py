"""The rules between settings: states that contradict each other, kinds that do not exist, bounds set twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from .channels import channel_problems
from .config import TokensConfig, TrackerConfig, WorkflowSettings
from .document import WorkflowText
from .fields import VARIABLE_NAME, entries, leaves
from .problems import Problems, Severity, closest, did_you_mean
from .variables import ENV_FILE, OURS, PREFIX, Variables, override_name

# The kinds there are, of "tracker" and of "agent"; none where nobody knows.
Kinds = Mapping[str, Collection[str]]
NO_KINDS: Kinds = {}

Contradiction = tuple[Severity, str, str]

IS_EXPOSED = (
    "can be reached from other machines, so it needs a token; set server.tokens.operate or "
    "SORTIE_SERVER_TOKENS_OPERATE, or listen on 127.0.0.1"
)

# Of two names that both begin with the prefix, much is the same anyway.
_ALIKE = 0.75


def contradictions(
    settings: WorkflowSettings,
    kinds: Kinds,
    variables: Mapping[str, str],
    *,
    is_accepted: Callable[..., bool],
    is_given: Callable[[str], bool],
) -> Iterator[Contradiction]:
    """The settings are those written: names in upper and lower case, the older name of a bound beside it.

    A rule is left out where one of its values was not accepted. Each finding is severity, key and sentence.
    """
    tracker, agent = settings.tracker, settings.agent
    if not tracker.kind and is_accepted("tracker", "tracker.kind"):
        yield "error", "tracker.kind", 'is missing; name the tracker, such as "file"'
    for part, kind in {"tracker": tracker.kind, "agent": agent.kind}.items():
        known = kinds.get(part, ())
        if kind and kind not in known and known and is_accepted(f"{part}.kind"):
            fix = did_you_mean(kind, known) or f"; use one of: {', '.join(sorted(known))}"
            yield "error", f"{part}.kind", f'there is no {part} "{kind}" here{fix}'
    if is_accepted("tracker", "tracker.active_states", "tracker.terminal_states", "tracker.failed_states"):
        yield from _state_lists(tracker)
        if tracker.handoff_state and is_accepted("tracker.handoff_state"):
            yield from _handoff_state(tracker)
        if tracker.in_progress_state and is_accepted("tracker.in_progress_state", "tracker.handoff_state"):
            yield from _in_progress_state(tracker)
        yield from _slots_by_state(agent.max_concurrent_agents_by_state, tracker.active_states)
    root = str(settings.workspace.root.resolve())
    if ":" in root and is_accepted("workspace.root"):
        detail = f"git cannot be kept below {root}, because it takes the colon for the end of a path"
        yield "error", "workspace.root", f"{detail}; choose a directory without one"
    if is_given("agent.max_sessions") and is_accepted("agent.max_sessions"):
        if is_given("budget.per_issue.sessions"):
            yield "warning", "agent.max_sessions", "has no effect beside budget.per_issue.sessions; remove it"
        elif agent.max_sessions == 0:
            bound = f"0 leaves the usual bound of {settings.budget.per_issue.sessions} sessions per issue"
            fix = "to lift it write budget: {per_issue: {sessions: unlimited}}"
            yield "warning", "agent.max_sessions", f"{bound}; {fix}"
    for name in agent.env:
        if name not in variables:
            yield "warning", "agent.env", f"{name} is not set, so the agent will not get it"
    tokens = ("server.tokens", *(f"server.tokens.{scope}" for scope in entries(TokensConfig)))
    if (
        settings.server.port != 0
        and settings.server.is_exposed
        and is_accepted("server", "server.host", "server.port", *tokens)
    ):
        yield "error", "server.host", f"{settings.server.host} {IS_EXPOSED}"
    if is_accepted("notifications"):
        for key, complaint in channel_problems(settings.notifications):
            if is_accepted(key, *(f"{key}.{field}" for field in ("url", "webhook"))):
                yield "error", key, complaint
    if settings.worklog and is_accepted("worklog") and (complaint := document_problem(settings.worklog)):
        yield "error", "worklog", complaint


def document_problem(path: Path) -> str:
    """Why people and processes cannot share this file, which need not be there yet; empty where they can."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        there = path.parent.is_dir()
        return "" if there else f"{path} cannot be made, because its directory does not exist; make that first"
    except (OSError, ValueError) as error:
        return f"{path} cannot be used: {getattr(error, 'strerror', None) or error}"
    if stat.S_ISDIR(found.st_mode):
        return f"{path} is a directory; name a file in it"
    if stat.S_ISLNK(found.st_mode):
        return f"{path} is a link; name the file that it leads to"
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        return f"{path} is not a regular file with one name; name another"
    allowed = os.access(path, os.R_OK | os.W_OK)
    return "" if allowed else f"{path} cannot be read and written; allow that, or name another"


def _state_lists(tracker: TrackerConfig) -> Iterator[Contradiction]:
    if not tracker.active_states and not tracker.terminal_states:
        key = "tracker.active_states"
        yield "error", key, "is missing; list the states in which an issue is to be worked on"
    for state in tracker.terminal_states:
        if _has(tracker.active_states, state):
            yield "error", "tracker.terminal_states", f'"{state}" is also in tracker.active_states'
    for state in tracker.failed_states:
        if not _has(tracker.terminal_states, state):
            yield "error", "tracker.failed_states", f'"{state}" must be one of tracker.terminal_states'


def _handoff_state(tracker: TrackerConfig) -> Iterator[Contradiction]:
    state, key = tracker.handoff_state, "tracker.handoff_state"
    if _has(tracker.active_states, state):
        yield "error", key, f'"{state}" is also in tracker.active_states'
    elif _has(tracker.terminal_states, state):
        yield "error", key, f'"{state}" is also in tracker.terminal_states'
    elif not tracker.active_states:
        yield "error", key, "needs tracker.active_states; without them an issue handed off would start again"


def _in_progress_state(tracker: TrackerConfig) -> Iterator[Contradiction]:
    state, key = tracker.in_progress_state, "tracker.in_progress_state"
    if state.lower() == tracker.handoff_state.lower():
        yield "error", key, "must differ from tracker.handoff_state"
    elif _has(tracker.terminal_states, state):
        yield "error", key, f'"{state}" is also in tracker.terminal_states'
    elif tracker.active_states and not _has(tracker.active_states, state):
        yield "error", key, f'"{state}" must be one of tracker.active_states'


def _slots_by_state(slots: Iterable[str], active: tuple[str, ...]) -> Iterator[Contradiction]:
    seen: set[str] = set()
    for name in slots:
        key = f"agent.max_concurrent_agents_by_state.{name}"
        if name.lower() in seen:
            yield "error", key, "is given twice; upper and lower case do not matter here"
        seen.add(name.lower())
        if active and not _has(active, name):
            hint = did_you_mean(name, active)
            yield "warning", key, f"is not one of tracker.active_states, so it has no effect{hint}"


def check_variables(variables: Variables, workflow: WorkflowText, problems: Problems) -> None:
    """Warn of those that look like a setting and are none. What the workflow mentions somebody wants to be so."""
    settings = {override_name(key): (key, kind.env) for key, kind, _ in leaves(WorkflowSettings())}
    expected = {*OURS, *(name for name, (_, overridable) in settings.items() if overridable)}
    expected |= {*VARIABLE_NAME.findall(workflow.settings), *VARIABLE_NAME.findall(workflow.prompt)}
    for name in sorted({name for name in variables.values if name.startswith(PREFIX)} - expected):
        close = closest(name, [*settings, ENV_FILE], _ALIKE)
        if not close and name.removeprefix(PREFIX).partition("_")[0].lower() not in entries(WorkflowSettings):
            continue  # of somebody's own tools, for all we know
        key, overridable = settings.get(close, ("", True))
        hint = f'; did you mean "{close}"?' if close else ""
        if not overridable:
            hint = f"; {key} can only be set in the workflow"
        file, line = variables.origin(name)
        problems.warning(f"is not a setting and has no effect{hint}", key=name, file=file, line=line)


def _has(states: Iterable[str], state: str) -> bool:
    return any(state.lower() == other.lower() for other in states)
