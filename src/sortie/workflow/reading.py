"""One pass over the settings against the schema: typed values come out, every misfit is a problem with its line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .fields import Field, Unfit, shown
from .problems import Problems, did_you_mean
from .schema import ANY, MOVED, NO_EFFECT, SCHEMA, UNSUPPORTED, Schema, leaves
from .variables import Variables, expand, override_name
from .yaml_lines import Tree

# The kinds there are, of "tracker" and of "agent"; none where nobody knows.
Kinds = Mapping[str, Collection[str]]
NO_KINDS: Kinds = {}


class Reading:
    """`values` has the shape of the schema with every default filled in; `options` the blocks of other kinds.

    `rejected` holds the keys whose value was refused: their defaults stand in, so that one mistake is
    not reported as several.
    """

    def __init__(self, tree: Tree, variables: Variables, problems: Problems) -> None:
        self.rejected = set(tree.unusable)
        self.options: dict[str, dict[str, Any]] = {}
        self._tree = tree
        self._variables = variables
        self._problems = problems
        known = {name: value for name, value in tree.values.items() if name in SCHEMA}
        self.values = self._section(SCHEMA, known, "")

    def take_options(self, kinds: Collection[str]) -> None:
        """Sort out the top-level keys that the schema does not have."""
        for name, value in self._tree.values.items():
            if name in SCHEMA:
                continue
            if name in UNSUPPORTED:
                self._refuse("is not supported by this version; remove it", name)
            elif name in NO_EFFECT:
                self._problems.warning(NO_EFFECT[name], key=name, line=self._tree.line_of(name))
            elif name not in kinds:
                self._refuse(_unknown(name, "", [*SCHEMA, *kinds]), name)
            elif isinstance(value, dict | None):
                self.options[name] = value or {}
            else:
                self._refuse(f"must be a map, not {shown(value)}", name)

    def is_given(self, key: str) -> bool:
        return key in self._tree.lines or bool(self._variables.values.get(override_name(key)))

    def _section(self, schema: Schema, given: Any, path: str) -> dict[str, Any]:
        if not isinstance(given, dict | None):
            self._refuse(f"must be a map, not {shown(given)}", path)
        written: dict[str, Any] = given if isinstance(given, dict) else {}
        names = [name for name in schema if name != ANY]
        for name in written:
            key = _join(path, name)
            if name in schema:
                continue
            if ANY in schema:
                names.append(name)
            else:
                self._refuse(MOVED.get(key) or _unknown(name, path, schema), key)
        return {name: self._entry(schema.get(name, schema.get(ANY)), name, written, path) for name in names}

    def _entry(self, entry: Field | Schema | None, name: str, written: dict[str, Any], path: str) -> Any:
        key = _join(path, name)
        if isinstance(entry, Field):
            return self._field(entry, key, name in written, written.get(name))
        return self._section(entry or {}, written.get(name), key)

    def _field(self, field: Field, key: str, is_written: bool, value: Any) -> Any:
        variable = override_name(key)
        override = self._variables.values.get(variable) if field.overridable else None
        if override is not None:
            file, line = self._variables.origin(variable)
            return self._fit(field, field.kind.from_text(override), key, shown_key=variable, file=file, line=line)
        if not is_written:
            return field.default
        if isinstance(value, str) and field.expansion != "none":
            value = self._expanded(field, key, value)
        if key in self.rejected:
            return field.default
        return self._fit(field, value, key, shown_key=key, file="", line=self._tree.line_of(key))

    def _fit(self, field: Field, value: Any, key: str, *, shown_key: str, file: str, line: int) -> Any:
        try:
            return field.kind.read(value)
        except Unfit as unfit:
            self.rejected.add(key)
            actual = f", not {shown(value, secret=field.secret)}" if unfit.item is None else ""
            if unfit.item is not None and line:
                line = self._tree.line_of(f"{key}.{unfit.item}")
            self._problems.error(f"{unfit}{actual}", key=shown_key, line=line, file=file)
            return field.default

    def _expanded(self, field: Field, key: str, value: str) -> str:
        if field.expansion == "whole":
            if not value.strip().startswith("$"):
                return value
            value = value.strip()
        text, missing = expand(value, self._variables.values)
        for name in missing:
            self._refuse(f"uses ${name}, which is not set; set it, or write the value here", key)
        return text

    def _refuse(self, message: str, key: str) -> None:
        self.rejected.add(key)
        self._problems.error(message, key=key, line=self._tree.line_of(key))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unknown(name: str, path: str, siblings: Collection[str]) -> str:
    hint = did_you_mean(name, siblings)
    if not hint:
        elsewhere = [key for key, _ in leaves() if key.rpartition(".")[2] == name]
        hint = f'; did you mean "{elsewhere[0]}"?' if elsewhere else ""
    return f"there is no such {'key in ' + path if path else 'section or key'}{hint}"
