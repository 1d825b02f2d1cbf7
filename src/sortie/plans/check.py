"""The mistakes beyond single values: names, edges, cycles, outputs that nobody owes, texts never filled in.

All are found at once, each where it was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from ..workflow.checks import document_problem
from ..workflow.problems import did_you_mean
from .handover import ALWAYS, is_declared, parents
from .inbox_check import check_inboxes
from .markdown import placeholders
from .plan import SUMMARY, Plan
from .reading import Draft, Reading

# One mistake can close many cycles at once. These are enough to find it.
MOST_CYCLES = 20
# Of the tasks of a cycle: more than these are counted instead of named.
LONGEST_CYCLE = 40

MOST_SUGGESTIONS = 20

# Written by a task that failed: neither is ever a deliverable.
_OF_FAILURE = ("outbox/error_report.md", "outbox/partial")


def check(plan: Plan, drafts: list[Draft], reading: Reading, *, to_run: bool) -> None:
    """Notes every mistake. What was refused before is not refused once more for what follows from it. Only a plan
    that is `to_run` needs its inputs."""
    _check_names(drafts, reading)
    _check_edges(drafts, reading)
    _check_cycles(drafts, reading)
    for draft in drafts:
        _check_outputs(draft, reading)
    _check_texts(plan, drafts, reading)
    if to_run:
        check_inboxes(plan, drafts, reading)
        _check_documents(plan, reading)


def _check_names(drafts: list[Draft], reading: Reading) -> None:
    first: dict[str, Draft] = {}
    for draft in drafts:
        name = draft.task.name.lower()
        if name and first.setdefault(name, draft) is not draft:
            line = reading.line_of(f"{first[name].path}.name")
            reading.refuse(f"{draft.path}.name", f"is the name of another task too, on line {line}; change one")


def _check_edges(drafts: list[Draft], reading: Reading) -> None:
    by_name = {draft.task.name: draft for draft in reversed(drafts)}
    suggest = Suggestions()
    for draft in drafts:
        for field in ("depends_on", "wait_for"):
            edges = getattr(draft.task, field)
            seen: set[str] = set()
            for edge, place in zip(edges, draft.places[field], strict=True):
                if edge.task == draft.task.name:
                    reading.refuse(place, "is the task itself; a task cannot wait for itself")
                elif edge.task not in by_name:
                    reading.refuse(place, f'there is no task "{edge.task[:64]}"{suggest(edge.task, by_name)}')
                elif edge.task in seen:
                    reading.refuse(place, f"{edge.task} is given twice in {field}; keep one")
                seen.add(edge.task)
        for edge, place in zip(draft.task.depends_on, draft.places["depends_on"], strict=True):
            giver = by_name.get(edge.task)
            # With one output refused, nobody knows what the others were to be.
            if giver is None or giver is draft or "outputs" in giver.refused:
                continue
            declared = {output.path: None for output in giver.task.outputs}
            for output in edge.outputs:
                if not is_declared(output, declared):
                    hint = suggest(output, (*declared, *ALWAYS))
                    reading.refuse(place, f"{edge.task} does not declare the output {output}{hint}")


def _check_documents(plan: Plan, reading: Reading) -> None:
    for key, path in {"worklog": plan.worklog, "mailbox": plan.mailbox}.items():
        if path == plan.path:
            reading.refuse(key, "is the plan itself; name another file")
        elif path and (complaint := document_problem(path)):
            reading.refuse(key, complaint)
    if plan.mailbox and plan.mailbox == plan.worklog:
        reading.refuse("mailbox", "is the work log; name a file of its own")


class Suggestions:
    """What was meant by a word that there is not. All names are compared with it, so it is not asked for each."""

    def __init__(self) -> None:
        self._left = MOST_SUGGESTIONS

    def __call__(self, word: str, options: Iterable[str]) -> str:
        self._left -= 1
        return did_you_mean(word, options) if self._left >= 0 else ""


def _check_cycles(drafts: list[Draft], reading: Reading) -> None:
    """Each cycle that is left when those found before are cut open."""
    position = {draft.task.name: number for number, draft in enumerate(drafts)}
    edges = {
        draft.task.name: {name for name in draft.task.waits_for if name in position and name != draft.task.name}
        for draft in drafts
    }
    for count, cycle in enumerate(_cycles(edges, position)):
        first, second = cycle[0], cycle[1]
        if count == MOST_CYCLES:
            reading.refuse("tasks", "there are more cycles; break those that are named first")
            return
        path = _place(drafts[position[first]], second)
        reading.refuse(path, f"tasks wait for each other in a circle: {_shown(cycle)}; remove one of these edges")


def _cycles(edges: dict[str, set[str]], position: dict[str, int]) -> Iterator[list[str]]:
    """Each as a path that ends where it began, at the first of its tasks in the file. Every one is cut at its end
    before the next is looked for."""
    while True:
        ordered = {name: sorted(others, key=position.__getitem__) for name, others in edges.items()}
        try:
            TopologicalSorter(ordered).prepare()
        except CycleError as error:
            found: list[str] = error.args[1][:-1][::-1]  # from a task to the one that it waits for
            start = found.index(min(found, key=position.__getitem__))
            cycle = [*found[start:], *found[:start]]
            yield [*cycle, cycle[0]]
            edges[cycle[-1]].discard(cycle[0])
        else:
            return


def _shown(cycle: list[str]) -> str:
    if len(cycle) > LONGEST_CYCLE:
        half = LONGEST_CYCLE // 2
        cycle = [*cycle[:half], f"({len(cycle) - 2 * half} more)", *cycle[-half:]]
    return " → ".join(cycle)


def _place(draft: Draft, waited_for: str) -> str:
    for field in ("depends_on", "wait_for"):
        for edge, place in zip(getattr(draft.task, field), draft.places[field], strict=True):
            if edge.task == waited_for:
                return place
    return draft.path


def _check_outputs(draft: Draft, reading: Reading) -> None:
    outputs = [output.path for output in draft.task.outputs]
    given = Counter(path.rstrip("/") for path in outputs)
    files = set(outputs)
    for path, place in zip(outputs, draft.places["outputs"], strict=True):
        plain = path.rstrip("/")
        if plain.startswith(_OF_FAILURE) and (plain in _OF_FAILURE or plain.startswith("outbox/partial/")):
            reading.refuse(place, f"{path} is where a task that failed leaves its work; choose another name")
        elif given[plain] > 1:
            reading.refuse(place, f"{path} is given twice; keep one")
        elif inside := [above for above in parents(path) if above in files]:
            reading.refuse(place, f"{path} cannot be made below {inside[0]}, which is to be a file")
    if files == {SUMMARY}:
        reading.refuse(f"{draft.path}.outputs", "must name a deliverable besides summary.md")


def _check_texts(plan: Plan, drafts: list[Draft], reading: Reading) -> None:
    known: dict[str, list[str]] = {}

    def look(path: str, text: str) -> None:
        if text not in known:
            known[text] = placeholders(text)
        for each in known[text]:
            reading.refuse(path, f"still holds the placeholder {each}; write what belongs there")

    look("goal", plan.goal)
    for draft in drafts:
        task = draft.task
        look(_written(draft, "objective", reading), task.objective)
        look(_written(draft, "context", reading), task.context)
        for field in ("requirements", "success_criteria", "constraints"):
            for text in getattr(task, field):
                look(_written(draft, field, reading), text)
        for field in ("inputs", "outputs"):
            for each, place in zip(getattr(task, field), draft.places[field], strict=True):
                look(place, each.description)
                look(place, each.path)


def _written(draft: Draft, key: str, reading: Reading) -> str:
    own = f"{draft.path}.{key}"
    return own if reading.is_written(own) else f"defaults.{key}"
