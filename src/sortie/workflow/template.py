"""The prompt: a sandboxed Jinja template, checked when loaded, rendered for every turn. Issue text is only data."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec
from jinja2 import StrictUndefined, Template, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..core.model import Issue
from ..errors import PromptError
from .document import Document
from .gotemplate import go_lines
from .problems import Problems
from .template_check import mistakes_in

CONTINUATION_PROMPT = (
    "Continue with this issue. Look at what is already done in this workspace and carry on with what remains. "
    "If nothing remains, verify the result once more and finish."
)

# Far more than any prompt needs: what goes beyond is a loop that does not end.
LONGEST_RENDERING = 1.0
LONGEST_PROMPT = 16 * 1024 * 1024


@functools.cache
def _environment() -> ImmutableSandboxedEnvironment:
    # A prompt is plain text: nothing in it is HTML to be escaped.
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


class PromptTemplate:
    """`file` and the line numbers in its errors are those of the workflow."""

    def __init__(self, template: Template, file: str, first_line: int) -> None:
        self._template = template
        self._file = file
        self._first_line = first_line

    def render(self, issue: Issue, *, attempt: int, turn: int, max_turns: int) -> str:
        """The prompt of one turn. A continuation for which the template says nothing gets a fixed text."""
        try:
            with _bounded():
                prompt = "".join(self._pieces(_data(issue, attempt, turn, max_turns))).strip()
        except Exception as error:  # whatever an expression of the template may raise
            reason = str(error).strip().rstrip(".") or type(error).__name__
            raise PromptError(self._file, self._line_of(error), reason) from error
        if prompt:
            return prompt
        if turn > 1:
            return CONTINUATION_PROMPT
        raise PromptError(self._file, self._first_line, "it is empty on the first turn")

    def _pieces(self, data: Mapping[str, Any]) -> Iterator[str]:
        length = 0
        for piece in self._template.generate(data):
            length += len(piece)
            if length > LONGEST_PROMPT:
                raise OverflowError(f"it is longer than {LONGEST_PROMPT:,} characters")
            yield piece

    def _line_of(self, error: BaseException) -> int:
        line = self._first_line
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<template>":
                line = trace.tb_lineno
            trace = trace.tb_next
        return line


@contextmanager
def _bounded() -> Iterator[None]:
    """No template computes for longer, whatever its loops do. Waiting for the processor does not count."""
    end = time.thread_time() + LONGEST_RENDERING

    def watch(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != "<template>":
            return None
        if time.thread_time() > end:
            raise TimeoutError("it takes too long; look for a loop that does not end")
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)


def compile_prompt(document: Document, problems: Problems) -> PromptTemplate | None:
    """The template, or None with every problem noted that can be seen without rendering."""
    foreign = list(go_lines(document.prompt))
    for number, in_jinja in foreign:
        problems.error(f'Go template syntax; write "{in_jinja}"', line=document.prompt_line + number - 1)
    if foreign:
        return None
    environment = _environment()
    # Padded, so that the template's line numbers are those of the file.
    source = "\n" * (document.prompt_line - 1) + document.prompt
    try:
        mistakes = list(mistakes_in(environment.parse(source), environment))
        if not mistakes:
            return PromptTemplate(environment.from_string(source), problems.file, document.prompt_line)
        for line, message in mistakes:
            problems.error(message, line=line)
    except TemplateSyntaxError as error:
        problems.error(f"template: {_sentence(error)}", line=error.lineno)
    except (RecursionError, MemoryError, ArithmeticError, ValueError, SyntaxError):
        problems.error("the template is too complex to be compiled", line=document.prompt_line)
    return None


def _sentence(error: TemplateSyntaxError) -> str:
    message = (error.message or "syntax error").rstrip(".")
    return message[0].lower() + message[1:]


def _data(issue: Issue, attempt: int, turn: int, max_turns: int) -> Mapping[str, Any]:
    fields = msgspec.to_builtins(issue)
    for name in ("labels", "comments", "blocked_by"):
        if fields[name] is not None:
            fields[name] = list(fields[name])
    return {
        "issue": fields,
        "attempt": attempt,
        "run": {"turn_number": turn, "max_turns": max_turns, "is_continuation": turn > 1},
        "ci_failure": None,
        "review_comments": None,
    }
