"""The way in: WORKFLOW.md to a `Workflow`, or every problem it has at once. Nothing outside is contacted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from ..errors import ConfigurationError
from .checks import check_variables
from .config import Config
from .document import decode, read_file, split
from .problems import Problem, Problems
from .reading import NO_KINDS, Kinds
from .settings import read_config
from .template import PromptTemplate, compile_prompt
from .template_trial import try_out
from .variables import Variables, gather
from .yaml_lines import read_tree

Inspect = Callable[[Config], Iterable[tuple[str, str]]]


def nothing_more(_: Config) -> Iterable[tuple[str, str]]:
    return ()


class Workflow(Struct, frozen=True):
    """One consistent reading of the file; `digest` changes with it and with the `.env` file."""

    config: Config
    template: PromptTemplate
    warnings: tuple[str, ...]
    digest: str


class Examination(Struct, frozen=True):
    """Everything found out about a file; `workflow` is None where there are errors.

    `config` is the best reading even then, defaults where nothing can be read: good for finding the store of a
    service that runs on an earlier version of the file, and for nothing else.
    """

    workflow: Workflow | None
    problems: tuple[Problem, ...]
    digest: str
    config: Config

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.problems if problem.severity == "error")


def load(
    path: Path,
    *,
    environ: Mapping[str, str],
    env_file: Path | None = None,
    kinds: Kinds = NO_KINDS,
    inspect: Inspect = nothing_more,
    trial: bool = True,
) -> Workflow:
    """The workflow; raises `ConfigurationError` with one line for each problem.

    `kinds` are the registered kinds of trackers and agents: each may have a block of its own. `inspect` adds what
    these find wrong with it, as (key path, sentence). Without `trial` the prompt is not tried on made-up issues.
    """
    examination = examine(path, environ=environ, env_file=env_file, kinds=kinds, inspect=inspect, trial=trial)
    if examination.workflow is not None:
        return examination.workflow
    first, *others = examination.errors
    count = f"{path} has {len(others) + 1} problems; the first is: " if others else ""
    raise ConfigurationError(count + first, problems=examination.errors)


def check(
    path: Path,
    *,
    environ: Mapping[str, str],
    env_file: Path | None = None,
    kinds: Kinds = NO_KINDS,
    inspect: Inspect = nothing_more,
    trial: bool = True,
) -> list[Problem]:
    """Every error and warning, in the order of the file."""
    found = examine(path, environ=environ, env_file=env_file, kinds=kinds, inspect=inspect, trial=trial)
    return list(found.problems)


def examine(
    path: Path,
    *,
    environ: Mapping[str, str],
    env_file: Path | None = None,
    kinds: Kinds = NO_KINDS,
    inspect: Inspect = nothing_more,
    trial: bool = True,
) -> Examination:
    """Never raises for anything that is wrong with the files."""
    problems = Problems(str(path))
    variables = gather(environ, env_file, problems)
    content = _content(path, problems)
    digest = _digest(variables.file_content, content, problems)
    parts = _parts(path, content, variables, kinds, problems, trial=trial)
    if parts[0] is not None:
        _add_findings(inspect(parts[0]), parts[0], problems)
    found = tuple(problems.in_order())
    config, template = parts
    if config is None or template is None or any(problem.severity == "error" for problem in found):
        return Examination(None, found, digest, config or _stand_in(path, variables, kinds))
    workflow = Workflow(config, template, tuple(str(problem) for problem in found), digest)
    return Examination(workflow, found, digest, config)


def _stand_in(path: Path, variables: Variables, kinds: Kinds) -> Config:
    """What an empty file would mean, with what is wrong with that left unsaid."""
    unsaid = Problems(str(path))
    empty = read_tree("", 1, unsaid)
    assert empty is not None
    return read_config(path, empty, variables, kinds, unsaid)


def _add_findings(findings: Iterable[tuple[str, str]], config: Config, problems: Problems) -> None:
    """What a tracker or an agent found, unless that key is known to be wrong: then it looked at a stand-in."""
    wrong = {problem.key for problem in problems.in_order()}
    for key, message in findings:
        if key not in wrong:
            problems.error(message, key=key, line=config.line_of(key))


def _content(path: Path, problems: Problems) -> bytes:
    try:
        return read_file(path)
    except ConfigurationError as error:
        problems.error(error.message)
        return b""


def _digest(env_content: bytes, content: bytes, problems: Problems) -> str:
    """Different for each content, and for each reason why there is none."""
    digest = hashlib.sha256(content)
    for part in (
        env_content,
        *(str(problem).encode("utf-8", "surrogateescape") for problem in problems.in_order()),
    ):
        digest.update(b"\0" + part)
    return digest.hexdigest()


def _parts(
    path: Path, content: bytes, variables: Variables, kinds: Kinds, problems: Problems, *, trial: bool
) -> tuple[Config | None, PromptTemplate | None]:
    if any(problem.file == problems.file for problem in problems.in_order()):
        return None, None
    text = decode(content, problems)
    document = split(text, problems) if text is not None else None
    if document is None:
        return None, None
    check_variables(variables, text or "", problems)
    tree = read_tree(document.settings, document.settings_line, problems)
    template = compile_prompt(document, problems)
    # With broken YAML every required key would seem to be missing.
    config = read_config(path, tree, variables, kinds, problems) if tree is not None else None
    if trial and template is not None and document.prompt.strip():
        try_out(template, config.tracker.active_states if config else (), problems)
    return config, template
