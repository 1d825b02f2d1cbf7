"""What one task hands on to another: which of its outputs, and where in the inbox each of them lands."""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec.structs import replace

from .plan import SUMMARY, Dependency, Task

# Outputs that the protocol knows without a declaration.
ALWAYS = (SUMMARY, "outbox/changelog.md", "outbox/issues.md", "outbox/metadata.json")


def complete(dependency: Dependency, task: Task) -> Dependency:
    """With everything that was left out: all that `task`, the one depended on, declares, and its place."""
    declared = [output.path for output in task.outputs]
    return replace(
        dependency,
        outputs=dependency.outputs or tuple(dict.fromkeys((*declared, SUMMARY))),
        copy_to=dependency.copy_to or f"inbox/{dependency.task}/",
    )


def landing(dependency: Dependency, output: str) -> str:
    """Where an output of a complete dependency lands, as a path from the task folder; a slash ends a directory."""
    return dependency.copy_to + output.removeprefix("outbox/")


def is_declared(output: str, declared: Container[str]) -> bool:
    """Whether a task that declares these owes the output, or a directory that it lies in."""
    return output in declared or output in ALWAYS or any(f"{above}/" in declared for above in parents(output))


def parents(path: str) -> Iterator[str]:
    """The directories that a path leads through, the innermost first."""
    above = path.rstrip("/").rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]
