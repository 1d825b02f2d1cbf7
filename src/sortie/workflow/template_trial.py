"""Renders a prompt for made-up issues when it is loaded, so that what fails is known before an agent is started.

What the template does wrong for every issue is an error. What it does wrong for some (one without a parent, one in
a certain state) is a warning: there may be no such issue.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from ..core.model import Blocker, Comment, Issue, IssueRef
from ..errors import PromptError
from .problems import Problems
from .template import LONGEST_RENDERING, PromptTemplate

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
)
_MOMENTS = tuple(itertools.product((0, 1), (1, 2)))  # attempt, turn

# What is looked up in a table of the template itself, or in a list, depends on what issues there really are.
_LOOKED_UP = re.compile(r"'?(dict|list) object'? has no ")


def try_out(template: PromptTemplate, states: Sequence[str], problems: Problems) -> None:
    """Every way in which it fails, as errors and warnings; `states` are those in which issues are worked on."""
    end = time.thread_time() + LONGEST_RENDERING
    for attempt, turn in _MOMENTS:
        faults: dict[tuple[int, str], str] = {}
        worked = False
        for which, issue in _samples(states):
            try:
                template.render(issue, attempt=attempt, turn=turn, max_turns=3)
                worked = True
            except PromptError as error:
                faults.setdefault((error.line, error.reason), which)
            if out_of_time := time.thread_time() > end:
                break
        for (line, reason), which in faults.items():
            if worked or _LOOKED_UP.match(reason):
                problems.warning(f"the prompt cannot be rendered for an issue {which}: {reason}", line=line)
            else:
                problems.error(f"the prompt cannot be rendered: {reason}", line=line)
        if out_of_time:
            return


def _samples(states: Sequence[str]) -> Iterator[tuple[str, Issue]]:
    """Issues that have everything, that lack one thing, that have only what all have; each after `an issue ...`."""
    first, *others = states or ("To Do",)
    full = replace(_FULL, state=first)
    yield f"in {first}", full
    for state in others:
        yield f"in {state}", replace(full, state=state)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Issue)}
    # Comments that nobody fetched are an accident of the tracker, which a prompt need not reckon with.
    empty = {**{name: value for name, value in defaults.items() if value is not msgspec.NODEFAULT}, "comments": ()}
    for name, value in empty.items():
        yield f"that has no {name}", replace(full, **{name: value})
    yield "that has nothing but a title", replace(full, **empty)
