"""What is wrong with a prompt, known before an agent is started: unknown names, and what fails to render.

The prompt is rendered for made-up issues. What it does wrong for every issue is an error. What it does wrong for
some (one without a parent, one in a certain state) is a warning: there may be no such issue.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from jinja2 import nodes
from msgspec.structs import replace

from ..core.model import Blocker, Comment, Issue, IssueRef
from ..errors import PromptError
from .gotemplate import go_lines
from .issue_text import HIDDEN, issue_fields
from .problems import Severity, did_you_mean, listed
from .template import LONGEST_RENDERING, PromptTemplate, compiled, compiling, environment, prompt_data

_GIVEN_BY_JINJA = ("loop", "caller", "varargs", "kwargs", "self", "super")
_FROM_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)

_MANY = range(1, 9)
_FULL = Issue(
    id="10042",
    identifier="SAMPLE-42",
    title="Add retry logic",
    state="To Do",
    description="The client gives up at once.\n\nIt should try again.",
    priority=2,
    labels=tuple(f"label-{n}" for n in _MANY),
    assignee="alice",
    issue_type="Bug",
    url="https://tracker.example.org/projects/sample/issues/42",
    branch_name="sample-42-retry-logic",
    parent=IssueRef("10040", "SAMPLE-40"),
    comments=tuple(Comment(f"c{n}", "bob", "Seen here too.", "2026-03-25T10:00:00Z") for n in _MANY),
    blocked_by=tuple(Blocker(f"1000{n}", f"SAMPLE-{n}", "Done") for n in _MANY),
    created_at="2026-03-20T09:00:00Z",
    updated_at="2026-03-25T14:30:00Z",
    author="carol",
)
_MOMENTS = tuple(itertools.product((0, 1), (1, 2)))  # attempt, turn

# What there is in a prompt, and of which type it is.
_SAMPLE = prompt_data(issue_fields(_FULL)[0], attempt=0, turn=1, max_turns=3)
_SAMPLE["issue"]["trusted"] = True  # None has no type to go by
_NOUNS: dict[type, str] = {list: "list", int: "number", bool: "number", str: "text"}

# What is looked up in a table of the template itself, or in a list, depends on what issues there really are.
_LOOKED_UP = re.compile(r"'?(dict|list) object'? has no ")


@functools.lru_cache(maxsize=16)
def prompt_problems(text: str, states: tuple[str, ...]) -> tuple[tuple[Severity, int, str], ...]:
    """Severity, line and sentence of each; `states` are those in which issues are worked on."""
    if foreign := list(go_lines(text)):
        return tuple(("error", line, f'Go template syntax; write "{in_jinja}"') for line, in_jinja in foreign)
    try:
        with compiling():
            mistakes = list(_mistakes_in(environment().parse(text)))
        if mistakes:
            return tuple(("error", line, message) for line, message in mistakes)
        compiled(text)
    except PromptError as error:
        return (("error", error.line, error.reason),)
    return tuple(_trial(PromptTemplate(text), states))


def _trial(template: PromptTemplate, states: tuple[str, ...]) -> Iterator[tuple[Severity, int, str]]:
    end = time.thread_time() + LONGEST_RENDERING
    samples = [*_samples(states)]
    for attempt, turn in _MOMENTS:
        faults: dict[tuple[int, str], str] = {}
        worked = False
        for which, issue in samples:
            try:
                template.render(issue, attempt=attempt, turn=turn, max_turns=3)
                worked = True
            except PromptError as error:
                faults.setdefault((error.line, error.reason), which)
            if out_of_time := time.thread_time() > end:
                break
        for (line, reason), which in faults.items():
            if worked or _LOOKED_UP.match(reason):
                yield "warning", line, f"the prompt cannot be rendered for an issue {which}: {reason}"
            else:
                yield "error", line, f"the prompt cannot be rendered: {reason}"
        if out_of_time:
            return


def _samples(states: tuple[str, ...]) -> Iterator[tuple[str, Issue]]:
    """Issues that have everything, that lack one thing, that have only what all have; each after `an issue ...`."""
    first, *others = states or ("To Do",)
    full = replace(_FULL, state=first)
    yield f"in {first}", full
    for state in others:
        yield f"in {state}", replace(full, state=state)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Issue)}
    # Comments that nobody fetched are an accident of the tracker, which a prompt need not reckon with.
    empty = {**{name: value for name, value in defaults.items() if value is not msgspec.NODEFAULT}, "comments": ()}
    for name in (*HIDDEN, "trusted"):
        del empty[name]
    for name, value in empty.items():
        yield f"that has no {name}", replace(full, **{name: value})
    yield "that has nothing but a title", replace(full, **empty)
    said = tuple(replace(comment, trusted=False) for comment in full.comments or ())
    yield "of an author who is not trusted", replace(full, trusted=False, comments=said)


def _mistakes_in(template: nodes.Template) -> Iterator[tuple[int, str]]:
    """Line and message of each; the lines are those of the syntax tree."""
    for other in template.find_all(_FROM_OTHER_FILES):
        yield other.lineno, "a prompt is a single file; include, import and extends do not work here"
    bound = Counter(name.name for name in template.find_all(nodes.Name) if name.ctx != "load")
    # What the template sets itself, anywhere; whether it is set in time shows when it is rendered.
    own = {*bound, *(macro.name for macro in template.find_all(nodes.Macro))}
    for name in template.find_all(nodes.Name):
        if name.name not in {*_SAMPLE, *own, *_GIVEN_BY_JINJA, *environment().globals}:
            hint = did_you_mean(name.name, _SAMPLE) or f"; use {listed(_SAMPLE)}"
            yield name.lineno, f'the prompt has no "{name.name}"{hint}'
    items = _loop_variables(template, bound)
    for node in template.find_all((nodes.Getattr, nodes.Getitem)):
        yield from _field_mistakes(node, own - {*items}, items)
    for use in template.find_all((nodes.Filter, nodes.Test)):
        is_filter = isinstance(use, nodes.Filter)
        sort, known = ("filter", environment().filters) if is_filter else ("test", environment().tests)
        if use.name not in known:
            yield use.lineno, f'there is no {sort} "{use.name}"{did_you_mean(use.name, known)}'


def _loop_variables(template: nodes.Template, bound: Counter[str]) -> dict[str, str]:
    """What `comment` stands for in a loop over `issue.comments`; left out where the name is bound elsewhere too."""
    return {
        loop.target.name: f"{path}[]"
        for loop in template.find_all(nodes.For)
        if isinstance(loop.target, nodes.Name) and bound[loop.target.name] == 1
        if isinstance(_sample(path := _path(loop.iter, {})), list)
    }


def _field_mistakes(node: nodes.Expr, own: set[str], items: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    owner, _, field = (_path(node, items) or "").rpartition(".")
    if field.endswith("[]") or owner.split(".")[0].removesuffix("[]") in own:
        return
    written = (_path(node, {}) or "").rpartition(".")[0].replace("[]", "[…]")
    value = _sample(owner)
    if isinstance(value, dict) and field not in value:
        yield node.lineno, f'{written} has no field "{field}"{did_you_mean(field, value)}'
    # What has no fields has the methods of its type, such as `issue.title.upper()`.
    if type(value) in _NOUNS and field not in dir(value):
        yield node.lineno, f'{written} is a {_NOUNS[type(value)]} and has no "{field}"'


def _sample(path: str | None) -> Any:
    """What the path leads to in a full issue; None where it leads nowhere."""
    value: Any = _SAMPLE
    for step in (path or "").replace("[]", ".[]").split("."):
        match value:
            case dict() if step in value:
                value = value[step]
            case [first, *_] if step == "[]":
                value = first
            case _:
                return None
    return value


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
