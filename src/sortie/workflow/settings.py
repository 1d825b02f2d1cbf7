"""One pass over the settings of a file by the structs of `config`: typed values, and every misfit with its line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from .checks import Kinds, contradictions
from .config import MOVED, OF_THE_SERVICE, UNSUPPORTED, Config, WorkflowSettings
from .document import Tree
from .fields import Content, FilePath, Kind, Map, Unfit, entries, leaves, shown
from .problems import Problems, did_you_mean
from .variables import OURS, PREFIX, Variables, expand, override_name, secrets_of

Section = TypeVar("Section", bound=Struct)


def read_config(
    path: Path,
    tree: Tree,
    variables: Variables,
    kinds: Kinds,
    problems: Problems,
    without: Collection[str] = (),
    *,
    keys_needed: bool = True,
) -> Config:
    """The best reading of the settings; it may be used only where no error was noted. The sections `without` which
    the reader gets on are left as they are by default, and so is a secret that is not set if no `keys_needed`."""
    path = path.absolute()
    reading = Reading(path.parent, tree, variables, problems, keys_needed=keys_needed)
    settings = reading.settings(without)
    tracker, agent = settings.tracker, settings.agent
    options = reading.options(kinds, (tracker.kind, agent.kind))
    for severity, key, message in contradictions(
        settings, kinds, variables.values, is_accepted=reading.is_accepted, is_given=reading.is_given
    ):
        problems.add(severity, message, key=key, line=tree.line_of(key))
    if settings.worklog == path:
        problems.error("is the workflow itself; name another file", key="worklog", line=tree.line_of("worklog"))
    budget, sessions = settings.budget, agent.max_sessions
    if sessions and not reading.is_given("budget.per_issue.sessions"):
        budget = replace(budget, per_issue=replace(budget.per_issue, sessions=sessions))
    # Where the number was refused there is none.
    by_state = {name.lower(): slots for name, slots in agent.max_concurrent_agents_by_state.items() if slots}
    withheld = frozenset(_of_the_service(settings))
    settings = replace(settings, budget=budget, agent=replace(agent, max_concurrent_agents_by_state=by_state))
    return Config(
        **asdict(settings),
        path=path,
        options=options,
        secrets=secrets_of(variables.values, agent.env, options, tracker.api_key, *withheld),
        overrides={
            name: value
            for name, value in variables.values.items()
            if _is_for_agents(name) and value not in withheld
        },
    )


def _of_the_service(settings: WorkflowSettings) -> Iterator[str]:
    """Secrets that no agent has a use for, whatever the variables are called that they come from."""
    yield from settings.server.secrets
    for channel in settings.notifications.values():
        yield from channel.secrets


def _is_for_agents(variable: str) -> bool:
    """Whether what agents start may know it, to read the workflow with."""
    withheld = tuple(override_name(section) for section in OF_THE_SERVICE)
    return variable.startswith(PREFIX) and variable not in OURS and not variable.startswith(withheld)


class Reading:
    """`_rejected` holds the keys whose value was refused: their defaults stand in, so that one mistake is
    not reported as several.
    """

    def __init__(
        self, base: Path, tree: Tree, variables: Variables, problems: Problems, *, keys_needed: bool = True
    ) -> None:
        self._rejected = set(tree.unusable)
        self._base = base
        self._tree = tree
        self._variables = variables
        self._problems = problems
        self._keys_needed = keys_needed
        self._all: Struct = WorkflowSettings()

    def whole(self, default: Section) -> Section:
        """All that is written, by the struct of this default; any other key is refused."""
        self._all = default
        return self._section(default, self._tree.values, "")

    def settings(self, without: Collection[str]) -> WorkflowSettings:
        sections = entries(WorkflowSettings).keys() - set(without)
        known = {name: value for name, value in self._tree.values.items() if name in sections}
        return self._section(WorkflowSettings(), known, "")

    def options(self, kinds: Kinds, chosen: Collection[str]) -> dict[str, dict[str, Any]]:
        """The blocks of trackers and agents; other keys that are not a setting are refused."""
        found: dict[str, dict[str, Any]] = {}
        sections = entries(WorkflowSettings)
        for name, value in self._tree.values.items():
            if name in sections:
                continue
            if name in UNSUPPORTED:
                self._refuse("is not supported by this version; remove it", name)
            elif name not in chosen and not any(name in known for known in kinds.values()):
                self._refuse(self._unknown(name, "", [*sections, *chain(*kinds.values())]), name)
            else:
                found[name] = self._map(value, name)
        return found

    def is_given(self, key: str) -> bool:
        return key in self._tree.lines or override_name(key) in self._variables.values

    def is_accepted(self, *keys: str) -> bool:
        return self._rejected.isdisjoint(keys)

    def _section(self, default: Section, given: Any, path: str) -> Section:
        known, written = entries(type(default)), self._map(given, path)
        for name in written:
            if name not in known:
                key = _join(path, name)
                self._refuse(MOVED.get(key) or self._unknown(name, path, known), key)
        return type(default)(
            **{
                field: self._entry(entry, getattr(default, field), written, name, path)
                for name, (field, entry) in known.items()
            }
        )

    def _entry(self, entry: Content, default: Any, written: dict[str, Any], name: str, path: str) -> Any:
        key = _join(path, name)
        if isinstance(entry, Kind):
            value = self._setting(entry, default, written, name, key)
            return self._place(value or default) if isinstance(entry, FilePath) else value
        if not isinstance(entry, Map):
            return self._section(default, written.get(name), key)
        inner = self._map(written.get(name), key)
        fallback = None if isinstance(entry.values, Kind) else entry.values()
        return {each: self._entry(entry.values, fallback, inner, each, key) for each in inner}

    def _setting(self, kind: Kind, default: Any, written: dict[str, Any], name: str, key: str) -> Any:
        variable = override_name(key)
        if kind.env and variable in self._variables.values:
            file, line = self._variables.origin(variable)
            value = kind.from_text(self._variables.values[variable])
            return self._fit(kind, default, value, key, shown_key=variable, file=file, line=line)
        if name not in written:
            return default
        value = written[name]
        if isinstance(value, str) and kind.expand != "nowhere":
            value = self._expanded(kind, key, value)
        if key in self._rejected:
            return default
        return self._fit(kind, default, value, key, shown_key=key, file="", line=self._tree.line_of(key))

    def _fit(self, kind: Kind, default: Any, value: Any, key: str, *, shown_key: str, file: str, line: int) -> Any:
        try:
            return kind.read(value)
        except Unfit as unfit:
            self._rejected.add(key)
            actual = f", not {shown(value, secret=kind.secret)}" if unfit.item is None else ""
            if unfit.item is not None and line:
                line = self._tree.line_of(f"{key}.{unfit.item}")
            self._problems.error(f"{unfit}{actual}", key=shown_key, line=line, file=file)
            return default

    def _expanded(self, kind: Kind, key: str, value: str) -> str:
        if kind.expand == "whole":
            if not value.strip().startswith("$"):
                return value
            value = value.strip()
        text, missing = expand(value, self._variables.values)
        if missing and kind.secret and not self._keys_needed:
            self._rejected.add(key)
            return text
        for name in missing:
            self._refuse(f"uses ${name}, which is not set; set it, or write the value here", key)
        return text

    def _place(self, given: str | Path | None) -> Path | None:
        if not given:
            return None
        path = str(given)
        if path != "~" and not path.startswith("~/"):
            return self._base / path
        return self._base / (self._variables.values.get("HOME") or Path.home()) / path[2:]

    def _map(self, given: Any, key: str) -> dict[str, Any]:
        if not isinstance(given, dict | None):
            self._refuse(f"must be a map, not {shown(given)}", key)
        return given if isinstance(given, dict) else {}

    def _refuse(self, message: str, key: str) -> None:
        self._rejected.add(key)
        self._problems.error(message, key=key, line=self._tree.line_of(key))

    def _unknown(self, name: str, path: str, siblings: Collection[str]) -> str:
        hint = did_you_mean(name, siblings)
        if not hint:
            elsewhere = [key for key, _, _ in leaves(self._all) if key.rpartition(".")[2] == name]
            hint = f'; did you mean "{elsewhere[0]}"?' if elsewhere else ""
        return f"there is no such {'key in ' + path if path else 'section or key'}{hint}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
