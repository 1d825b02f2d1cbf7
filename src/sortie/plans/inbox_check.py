"""What will lie in the inboxes, looked at before anything runs: inputs that are not there or cannot be copied, and
two things that would land in the same place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .handover import landing
from .plan import Plan
from .reading import Draft, Reading

# What we write ourselves into each inbox.
RESERVED = ("instructions.md", "dependencies.json", ".received.json")
REFERENCE = ".ref.json"

# Of all directories together: what lies beyond is looked at when it is copied.
MOST_ENTRIES = 10_000


def check_inboxes(plan: Plan, drafts: list[Draft], reading: Reading) -> None:
    root = os.path.realpath(plan.root)
    if complaint := _of_root(plan, root):
        reading.refuse("workspace", complaint)
    look = Look(plan.path.parent, root)
    for draft in drafts:
        for each, place in zip(draft.task.inputs, draft.places["inputs"], strict=True):
            if complaint := look.at(each.path):
                reading.refuse(place, f"{each.path.removeprefix(f'{plan.path.parent}/')} {complaint}")
        _check_landings(draft, reading)


def _of_root(plan: Plan, root: str) -> str:
    home = os.path.realpath(plan.path.parent)
    if root == home or home.startswith(root.rstrip("/") + "/"):
        return "must be a directory of its own, which can be archived or removed as a whole; name another"
    if ":" in root:
        return f"git cannot be kept below {root}, because it takes the colon for the end of a path; choose another"
    try:
        found = plan.root.lstat().st_mode
    except (OSError, ValueError):
        return ""
    return "" if stat.S_ISDIR(found) else "must be a directory, and no link; something else has that name"


class Look:
    """What is wrong with inputs, each looked at once; `home` is the plan's directory, `root` its workspace."""

    def __init__(self, home: Path, root: str) -> None:
        self._home = home
        self._root = root
        self._known: dict[str, str] = {}
        self._entries = MOST_ENTRIES

    def at(self, path: str) -> str:
        """The end of a sentence that begins with the path; empty where nothing is wrong."""
        if path not in self._known:
            self._known[path] = self._complaint(path)
        return self._known[path]

    def _complaint(self, path: str) -> str:
        try:
            if link := self._link_on_the_way(Path(path)):
                return f"cannot be copied: {link} is a link, and links are not followed; name what it leads to"
            found = os.lstat(path)
        except FileNotFoundError:
            return "does not exist; correct the path, which is relative to the plan file"
        except (OSError, ValueError) as error:
            return f"cannot be looked at: {(getattr(error, 'strerror', '') or 'not a possible path').lower()}"
        real, root = os.path.realpath(path), self._root
        if real == root or real.startswith(f"{root}/") or root.startswith(real.rstrip("/") + "/"):
            return "and the workspace of the plan must not contain each other; move one of them"
        if stat.S_ISDIR(found.st_mode):
            return self._inside(path)
        if not stat.S_ISREG(found.st_mode):
            return "is neither a file nor a directory; only these can be copied"
        return "" if os.access(path, os.R_OK) else "cannot be read; change its mode or its owner"

    def _link_on_the_way(self, path: Path) -> str:
        """The first link among the path and what it leads through, as far as that is below the plan's directory."""
        for step in (*reversed([above for above in path.parents if self._home in above.parents]), path):
            if stat.S_ISLNK(step.lstat().st_mode):
                return str(step)
        return ""

    def _inside(self, path: str) -> str:
        pending = [path]
        while pending:
            directory = pending.pop()
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        self._entries -= 1
                        if self._entries < 0:
                            return ""
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        elif not entry.is_file(follow_symlinks=False):
                            return f"cannot be copied: {entry.path} is neither a file nor a directory; remove it"
            except OSError as error:
                return f"cannot be copied: {directory}: {(error.strerror or 'unknown error').lower()}"
        return ""


def is_reserved(name: str) -> bool:
    """Whether we write there, or what would have to be a directory for it."""
    return name.lower().partition("/")[0] in RESERVED


def _check_landings(draft: Draft, reading: Reading) -> None:
    """Nothing may land where something else does, nor inside of it. What one task hands on is one thing here: its
    own outbox keeps it apart."""
    # Who lands on a path, and who inside of it; inputs of the same name are told apart by their places.
    taken: dict[str, tuple[str, str]] = {}
    inside: dict[str, tuple[str, str]] = {}

    def claim(name: str, place: str, owner: tuple[str, str]) -> None:
        who = owner[0]
        name = name.rstrip("/")
        if is_reserved(name):
            reading.refuse(place, f"{who} would land on inbox/{name}, which is written by Sortie; rename it")
            return
        steps = name.split("/")
        above = ["/".join(steps[:count]) for count in range(1, len(steps))]
        for other in (name, name + REFERENCE, name.removesuffix(REFERENCE), *above):
            if taken.get(other, owner) != owner:
                reading.refuse(place, f"{who} and {taken[other][0]} would both land on inbox/{other}; rename one")
                return
        if inside.get(name, owner) != owner:
            reading.refuse(place, f"{who} would land on inbox/{name}, {inside[name][0]} inside of it; rename one")
            return
        taken[name] = owner
        inside.update(dict.fromkeys(above, owner))

    for each, place in zip(draft.task.inputs, draft.places["inputs"], strict=True):
        claim(each.name, place, (f"the input {Path(each.path).name}", place))
    for edge, place in zip(draft.task.depends_on, draft.places["depends_on"], strict=True):
        for output in edge.outputs:
            claim(landing(edge, output).removeprefix("inbox/"), place, (f"an output of {edge.task}", ""))
