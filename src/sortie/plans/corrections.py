"""Inputs that a person corrects: each file takes the place of one that the task gets, below `.fixes/<task>/`.

What is put there counts at once, so it is taken back where the task is not tried again. Files on their way lie
where no task looks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import SortieError
from ..workflow.fields import Unfit
from ..workflow.problems import did_you_mean
from .handover import landing
from .inbox_check import is_reserved
from .plan import FIXES, Plan, Task
from .shape import below


class Corrections:
    """Of one task; raises `SortieError` where one cannot be used, before any of them is put in its place."""

    def __init__(self, plan: Plan, task: Task, given: Sequence[str]) -> None:
        self._home = plan.root / FIXES
        self._files = [_understood(task, text) for text in given]
        self._places = [self._home / task.name / name for _, name in self._files]
        self._earlier: dict[Path, Path | None] = {}

    def put(self) -> None:
        """All of them, or none."""
        try:
            for number, ((path, _), place) in enumerate(zip(self._files, self._places, strict=True)):
                self._put(path, place, number)
        except OSError as error:
            self.take_back()
            raise SortieError(
                f"{path} cannot take the place of {place.name}: {error.strerror}.",
                fix="Nothing was changed; try again.",
            ) from error

    def _put(self, path: Path, place: Path, number: int) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        new, old = (self._home / f".{os.getpid()}.{number}.{word}" for word in ("new", "old"))
        try:
            shutil.copyfile(path, new)
            if place not in self._earlier:
                self._earlier[place] = old if place.exists() else None
                if place.exists():
                    place.replace(old)
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)

    def take_back(self) -> None:
        for place, old in self._earlier.items():
            if old is None:
                place.unlink(missing_ok=True)
            elif old.exists():
                old.replace(place)
        self._earlier.clear()

    def keep(self) -> None:
        for old in filter(None, self._earlier.values()):
            old.unlink(missing_ok=True)


def _understood(task: Task, text: str) -> tuple[Path, str]:
    """The file that `FILE[=NAME]` names, and the name below the inbox; a file may have a `=` in its own name."""
    split = [(text, "")] + [(text[:at], text[at + 1 :]) for at, sign in enumerate(text) if sign == "="]
    file, name = next(((file, name) for file, name in split if Path(file).is_file()), (text.partition("=")[0], ""))
    path = Path(file)
    if not path.is_file():
        raise SortieError(f"{path} is not a file.", fix="Name the corrected file.")
    try:
        name = below("inbox", name or path.name).rstrip("/")
    except Unfit as unfit:
        raise SortieError(f"{name or path.name} is no name below the inbox: it {unfit}.") from unfit
    if is_reserved(name):
        raise SortieError(f"inbox/{name} is made from the plan.", fix="Change the plan instead; it is followed.")
    gets = [*_what_it_gets(task)]
    if not any(name == one or (one.endswith("/") and name.startswith(one)) for one in gets):
        close = did_you_mean(name, gets)
        known = f"It gets {', '.join(gets[:10])}; name one with {path}=NAME." if gets else "It gets no files."
        raise SortieError(f"{task.name} has no input {name}{close or '.'}", fix=known)
    return path, name


def _what_it_gets(task: Task) -> Iterator[str]:
    """Names below its inbox; a slash ends that of a directory."""
    for given in task.inputs:
        yield f"{given.name}/" if Path(given.path).is_dir() else given.name
    for dependency in task.depends_on:
        for output in dependency.outputs:
            yield landing(dependency, output).removeprefix("inbox/")
