"""The sandbox of prompts: no filter, method, operator or slice shows text of people outside of a marked place.

Jinja has few ways by which an expression makes one text of others: filters, methods of texts, operators, `~`, and
blocks whose output is a value. Each is here. What is made from text of people is text of people, what was joined
with such a text stays as it is, and all else is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .foreign_pieces import CutError, Foreign, Joined, Place, is_marked

# These give back what they were given, or parts of a list; they look at texts, and make none.
_KEEPING = frozenset(
    {"attr", "batch", "d", "default", "dictsort", "first", "groupby", "items", "last", "list", "map", "max", "min"}
    | {"random", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort", "unique"}
)
# These put texts together: each of them is shown in its own place.
_COMPOSING = frozenset({"join", "format", "format_map"})

_Operation = Callable[..., Any]


class _Code(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - so Jinja calls it
        self.write("environment.put_together((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_ScopedEvalContextModifier(  # noqa: N802 - same
        self, node: nodes.ScopedEvalContextModifier, _frame: Frame
    ) -> None:
        self.fail("a prompt is plain text; autoescape does not work here", node.lineno)


class PromptSandbox(ImmutableSandboxedEnvironment):
    code_generator_class = _Code
    intercepted_binops = frozenset({"+", "*", "%"})

    def __init__(self) -> None:
        # Nothing in a prompt is HTML to be escaped.
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.filters = {name: _filter(name, function) for name, function in self.filters.items()}
        self.tests = {name: _test(function) for name, function in self.tests.items()}

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """What a macro, or a block that is a value, has put out."""
        return _joined("".join(pieces))

    @staticmethod
    def put_together(values: Iterable[Any]) -> str:
        return _joined("".join(map(str, values)))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Of a text of people only what every text has: the rest is ours, the bare text among it."""
        is_ours = isinstance(obj, Foreign) and not hasattr(str, attr)
        return not is_ours and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, _context: Context, operator: str, left: Any, right: Any) -> Any:
        return _composed(self.binop_table[operator], (left, right), {})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._guarded(obj, attribute, super().getattr(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self._guarded(obj, argument, super().getitem(obj, argument))

    def _guarded(self, obj: Any, name: Any, value: Any) -> Any:
        """The methods of texts."""
        if not (isinstance(obj, str) and isinstance(name, str) and callable(value)):
            return value
        if isinstance(value, StrictUndefined):
            return value

        def operation(owner: str, *args: Any, **kwargs: Any) -> Any:
            return ImmutableSandboxedEnvironment.getattr(self, owner, name)(*args, **kwargs)

        def method(*args: Any, **kwargs: Any) -> Any:
            return (_composed if name in _COMPOSING else _derived)(operation, (obj, *args), kwargs)

        return method


def _filter(name: str, function: Any) -> _Operation:
    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if name in _KEEPING:
            return _listed(function(*args, **kwargs))
        return (_composed if name in _COMPOSING else _derived)(function, args, kwargs)

    return guarded


def _test(function: Any) -> _Operation:
    @functools.wraps(function)
    def on_plain(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})

    return on_plain


class _Found(NamedTuple):
    foreign: list[Foreign]
    joined: list[str]


def _found_in(values: Iterable[Any]) -> _Found:
    """The texts of others in these, however deep."""
    found, rest, seen = _Found([], []), [*values], set[int]()
    while rest:
        value = rest.pop()
        match value:
            case Foreign():
                found.foreign.append(value)
            case str():
                if is_marked(value):
                    found.joined.append(value)
            case list() | tuple() | set() | frozenset() | dict():
                if id(value) not in seen:
                    seen.add(id(value))
                    rest += [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return found


def _derived(operation: _Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What is made from a text of people is one, and nothing is made from one that was joined with others."""
    found = _found_in((*args, *kwargs.values()))
    result = operation(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
    is_taken_out = any(isinstance(value, Foreign) for value in (*args, *kwargs.values()))
    return _settled(result, found, is_taken_out)


def _settled(result: Any, found: _Found, is_taken_out: bool) -> Any:
    match _listed(result):
        case bytes() | bytearray() if found.foreign or found.joined:
            raise CutError
        case str() as text if is_marked(text):
            if is_taken_out or is_marked(_without(text, found.joined)):
                raise CutError
            return Joined(text)
        case str() as text if found.joined and text.strip():
            raise CutError
        case str() as text:
            return Foreign(str.__str__(text), Place.of_all(found.foreign)) if found.foreign else text
        case list() | tuple() as several:
            inner = [_settled(one, found, is_taken_out) for one in several]
            return inner if isinstance(several, list) else tuple(inner)
        case dict() as named:
            return {name: _settled(value, found, is_taken_out) for name, value in named.items()}
        case other:
            return other


def _composed(operation: _Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Each text in its own place; where the operation would cut a place, all of it is one text of people."""
    found = _found_in((*args, *kwargs.values()))
    if not found.foreign and not found.joined:
        result = operation(*args, **kwargs)
        return _joined(result) if isinstance(result, str) else result
    shown = operation(*_each(_shown, args), **_each(_shown, kwargs))
    if not isinstance(shown, str):
        return operation(*args, **kwargs)
    if is_marked(shown) and not is_marked(_without(shown, [*map(str, found.foreign), *found.joined])):
        return Joined(shown)
    plain = operation(*_each(_plain, args), **_each(_plain, kwargs))
    if shown == plain and not is_marked(plain):
        return plain  # none of them is in it
    if found.joined:
        raise CutError
    return Foreign(plain, Place.of_all(found.foreign))


def _joined(text: str) -> str:
    return Joined(text) if is_marked(text) else text


def _without(text: str, wholes: Iterable[str]) -> str:
    """Without these, but for blank lines around them."""
    for whole in sorted((one.strip() for one in wholes), key=len, reverse=True):
        if whole:
            text = text.replace(whole, "")
    return text


def _plain(value: Any) -> Any:
    return value.plain if isinstance(value, Foreign) else value


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Foreign) else value


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """The same with every text in it changed."""
    if isinstance(value, dict):
        return {name: _each(change, inner) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_each(change, inner) for inner in value)
    return change(value)


def _listed(value: Any) -> Any:
    """What comes one by one, as a list: so all that is in it is seen."""
    return [*value] if isinstance(value, Iterator) else value
