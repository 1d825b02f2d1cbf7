"""Finds names, fields, filters and tests in a prompt that do not exist, before an agent is started with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from jinja2 import Environment, nodes

from ..core.model import Blocker, Comment, Issue, IssueRef
from .problems import did_you_mean, listed

NAMES = ("issue", "attempt", "run", "ci_failure", "review_comments")
FIELDS = {
    "issue": Issue.__struct_fields__,
    "issue.parent": IssueRef.__struct_fields__,
    "issue.comments[]": Comment.__struct_fields__,
    "issue.blocked_by[]": Blocker.__struct_fields__,
    "run": ("turn_number", "max_turns", "is_continuation"),
}

_LISTS = ("issue.labels", "issue.comments", "issue.blocked_by")
_NUMBERS = ("attempt", "issue.priority", "run.turn_number", "run.max_turns", "run.is_continuation")
_TEXTS = {
    "issue.labels[]",
    *(f"{owner}.{field}" for owner, fields in FIELDS.items() for field in fields),
} - {"issue.parent", *_LISTS, *_NUMBERS}
# What has no fields has the methods of its type, such as `issue.title.upper()`.
_WITHOUT_FIELDS = {
    **dict.fromkeys(_LISTS, (list, "list")),
    **dict.fromkeys(_NUMBERS, (int, "number")),
    **dict.fromkeys(_TEXTS, (str, "text")),
}

_GIVEN_BY_JINJA = ("loop", "caller", "varargs", "kwargs", "self", "super")
_FROM_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


def mistakes_in(template: nodes.Template, environment: Environment) -> Iterator[tuple[int, str]]:
    """Line and message of each; the lines are those of the syntax tree."""
    for other in template.find_all(_FROM_OTHER_FILES):
        yield other.lineno, "a prompt is a single file; include, import and extends do not work here"
    own = _names_of_its_own(template)
    for name in template.find_all(nodes.Name):
        if name.name not in {*NAMES, *own, *_GIVEN_BY_JINJA, *environment.globals}:
            hint = did_you_mean(name.name, NAMES) or f"; use {listed(NAMES)}"
            yield name.lineno, f'the prompt has no "{name.name}"{hint}'
    items = _loop_variables(template)
    for node in template.find_all((nodes.Getattr, nodes.Getitem)):
        yield from _field_mistakes(node, own - {*items}, items)
    for use in template.find_all((nodes.Filter, nodes.Test)):
        known = environment.filters if isinstance(use, nodes.Filter) else environment.tests
        if use.name not in known:
            sort = "filter" if isinstance(use, nodes.Filter) else "test"
            yield use.lineno, f'there is no {sort} "{use.name}"{did_you_mean(use.name, known)}'


def _names_of_its_own(template: nodes.Template) -> set[str]:
    """What the template sets itself, anywhere; whether it is set in time shows when it is rendered."""
    macros = {macro.name for macro in template.find_all(nodes.Macro)}
    return macros | {name.name for name in template.find_all(nodes.Name) if name.ctx != "load"}


def _loop_variables(template: nodes.Template) -> dict[str, str]:
    """What `comment` stands for in a loop over `issue.comments`; left out where the name is bound elsewhere too."""
    bound = Counter(name.name for name in template.find_all(nodes.Name) if name.ctx != "load")
    return {
        loop.target.name: f"{path}[]"
        for loop in template.find_all(nodes.For)
        if isinstance(loop.target, nodes.Name) and bound[loop.target.name] == 1
        if (path := _path(loop.iter, {})) in _LISTS
    }


def _field_mistakes(node: nodes.Expr, own: set[str], items: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    owner, _, field = (_path(node, items) or "").rpartition(".")
    if field.endswith("[]") or owner.split(".")[0].removesuffix("[]") in own:
        return
    written = (_path(node, {}) or "").rpartition(".")[0].replace("[]", "[…]")
    if owner in FIELDS and field not in FIELDS[owner]:
        yield node.lineno, f'{written} has no field "{field}"{did_you_mean(field, FIELDS[owner])}'
    if owner in _WITHOUT_FIELDS:
        sort, noun = _WITHOUT_FIELDS[owner]
        if field not in dir(sort):
            yield node.lineno, f'{written} is a {noun} and has no "{field}"'


def _path(node: nodes.Node, items: Mapping[str, str]) -> str | None:
    """`issue.parent.id` for such an expression, also in brackets, `issue.labels[]` for an item; None for others."""
    match node:
        case nodes.Name(name=name):
            return items.get(name, str(name))
        case nodes.Getattr(node=owner, attr=field) | nodes.Getitem(node=owner, arg=nodes.Const(value=str(field))):
            path = _path(owner, items)
            return f"{path}.{field}" if path else None
        case nodes.Getitem(node=owner, arg=nodes.Const(value=int())):
            path = _path(owner, items)
            return f"{path}[]" if path else None
    return None
