"""The way in: WORKFLOW.md to a `Workflow`, or every problem it has at once. Nothing outside is contacted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Required, TypedDict, Unpack

from msgspec import Struct

from ..errors import ConfigurationError
from .checks import NO_KINDS, Kinds, check_variables
from .config import Config
from .document import Tree, WorkflowText, read_file, read_tree, split
from .problems import Problem, Problems
from .settings import read_config
from .template import PromptTemplate
from .variables import gather

Inspect = Callable[[Config], Iterable[tuple[str, str]]]


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


class Circumstances(TypedDict, total=False):
    """What a file is read with. `kinds` are the registered kinds of trackers and agents: each may have a block of
    its own. `inspect` adds what these find wrong with it, as (key path, sentence). Without `trial` nobody is going
    to render the prompt: it is neither compiled nor tried on made-up issues. The sections `without` which the
    reader gets on are not read, so that what they need need not be there. Where no `keys_needed`, because somebody
    only looks at the store, a secret whose variable is not set is empty and no error.
    """

    environ: Required[Mapping[str, str]]
    env_file: Path | None
    kinds: Kinds
    inspect: Inspect
    trial: bool
    without: Collection[str]
    keys_needed: bool


def load(path: Path, **circumstances: Unpack[Circumstances]) -> Workflow:
    """The workflow; raises `ConfigurationError` with one line for each problem."""
    examination = examine(path, **circumstances)
    if examination.workflow is not None:
        return examination.workflow
    first, *others = examination.errors
    count = f"{path} has {len(others) + 1} problems; the first is: " if others else ""
    raise ConfigurationError(count + first, problems=examination.errors)


def check(path: Path, **circumstances: Unpack[Circumstances]) -> list[Problem]:
    """Every error and warning, in the order of the file."""
    return list(examine(path, **circumstances).problems)


def examine(
    path: Path,
    *,
    environ: Mapping[str, str],
    env_file: Path | None = None,
    kinds: Kinds = NO_KINDS,
    inspect: Inspect = lambda _: (),
    trial: bool = True,
    without: Collection[str] = (),
    keys_needed: bool = True,
) -> Examination:
    """Never raises for anything that is wrong with the files."""
    problems = Problems(str(path))
    variables = gather(environ, env_file, problems)
    content = read_file(path, problems)
    _check_place(path, problems)
    digest = _digest(variables.file_content, content or b"", problems)
    document = split(content, problems) if content is not None else None
    config = None
    if document:
        check_variables(variables, document, problems)
        # With broken YAML every required key would seem to be missing.
        if tree := read_tree(document.settings, problems):
            config = read_config(path, tree, variables, kinds, problems, without, keys_needed=keys_needed)
        if trial and document.prompt.strip():
            _check_prompt(document, config, problems)
        if tree and config:
            _add_findings(inspect(config), tree, problems)
    found = tuple(problems.in_order())
    workflow = None
    if config and document and not any(problem.severity == "error" for problem in found):
        template = PromptTemplate(document.prompt, str(path), document.prompt_line)
        workflow = Workflow(config, template, tuple(str(problem) for problem in found), digest)
    # What an empty file would mean stands in, with what is wrong with that left unsaid.
    config = config or read_config(path, Tree(), variables, kinds, Problems(str(path)))
    return Examination(workflow, found, digest, config)


def _check_place(path: Path, problems: Problems) -> None:
    """The store and the messages of a run name places, as text."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        problems.error("the path of its directory is not UTF-8 text; rename that, or move the project")


def _check_prompt(document: WorkflowText, config: Config | None, problems: Problems) -> None:
    from .template_check import prompt_problems  # brings Jinja, which is most of the time of loading

    states = config.tracker.active_states if config else ()
    for severity, line, message in prompt_problems(document.prompt, states):
        problems.add(severity, message, line=document.prompt_line - 1 + line)


def _add_findings(findings: Iterable[tuple[str, str]], tree: Tree, problems: Problems) -> None:
    """What a tracker or an agent found, unless that key is known to be wrong: then it looked at a stand-in."""
    wrong = {problem.key for problem in problems.in_order()}
    for key, message in findings:
        if key not in wrong:
            problems.error(message, key=key, line=tree.line_of(key))


def _digest(env_content: bytes, content: bytes, problems: Problems) -> str:
    """Different for each content, and for each reason why there is none."""
    reasons = (str(problem).encode("utf-8", "surrogateescape") for problem in problems.in_order())
    digest = hashlib.sha256(content)
    for part in (env_content, *reasons):
        digest.update(b"\0" + part)
    return digest.hexdigest()
