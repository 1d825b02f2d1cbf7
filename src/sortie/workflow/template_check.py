"""Finds names, fields, filters and tests in a prompt that do not exist, before an agent is started with it."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment, nodes

from ..core.model import Issue, IssueRef
from .problems import did_you_mean, listed

NAMES = ("issue", "attempt", "run", "ci_failure", "review_comments")
FIELDS = {
    "issue": Issue.__struct_fields__,
    "issue.parent": IssueRef.__struct_fields__,
    "run": ("turn_number", "max_turns", "is_continuation"),
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
    for node in template.find_all((nodes.Getattr, nodes.Getitem)):
        yield from _field_mistakes(node, own)
    for use in template.find_all((nodes.Filter, nodes.Test)):
        known = environment.filters if isinstance(use, nodes.Filter) else environment.tests
        if use.name not in known:
            sort = "filter" if isinstance(use, nodes.Filter) else "test"
            yield use.lineno, f'there is no {sort} "{use.name}"{did_you_mean(use.name, known)}'


def _names_of_its_own(template: nodes.Template) -> set[str]:
    """What the template sets itself, anywhere; whether it is set in time shows when it is rendered."""
    macros = {macro.name for macro in template.find_all(nodes.Macro)}
    return macros | {name.name for name in template.find_all(nodes.Name) if name.ctx != "load"}


def _field_mistakes(node: nodes.Expr, own: set[str]) -> Iterator[tuple[int, str]]:
    owner, _, field = (_path(node) or "").rpartition(".")
    if owner.split(".")[0] in own:
        return
    if owner in FIELDS and field not in FIELDS[owner]:
        yield node.lineno, f'{owner} has no field "{field}"{did_you_mean(field, FIELDS[owner])}'


def _path(node: nodes.Node) -> str | None:
    """`issue.parent.id` for such an expression, also in brackets; None for anything else."""
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr(node=owner, attr=field) | nodes.Getitem(node=owner, arg=nodes.Const(value=str(field))):
            path = _path(owner)
            return f"{path}.{field}" if path else None
    return None
