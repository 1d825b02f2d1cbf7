"""The prompt: a sandboxed Jinja template, compiled once, rendered for every turn. Issue text is only data.

Jinja is loaded with the first template that is compiled; most commands never need it.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..core.model import Issue
from ..errors import PromptError
from .foreign_pieces import marking
from .issue_text import issue_fields

if TYPE_CHECKING:
    from jinja2 import Template

    from .prompt_sandbox import PromptSandbox

CONTINUATION_PROMPT = (
    "Continue with this issue. Look at what is already done in this workspace and carry on with what remains. "
    "If nothing remains, verify the result once more and finish."
)

# Far more than any prompt needs: what goes beyond is a loop that does not end.
LONGEST_RENDERING = 1.0
LONGEST_PROMPT = 16 * 1024 * 1024


class PromptTemplate(Struct, frozen=True):
    """A template over the issue, or a text that is given as it is. `file` and `line` are where it stands."""

    text: str
    file: str = "prompt"
    line: int = 1
    is_template: bool = True

    def render(self, issue: Issue, *, attempt: int, turn: int, max_turns: int) -> str:
        """The prompt of one turn. A continuation for which the template says nothing gets a fixed text."""
        if not self.is_template:
            return self.text
        try:
            template, can_take_long = compiled(self.text)
            fields, mark = issue_fields(issue)
            with marking(mark), _bounded() if can_take_long else nullcontext():
                prompt = "".join(_pieces(template, prompt_data(fields, attempt, turn, max_turns))).strip()
        except PromptError as error:
            raise self._error(error.line, error.reason) from error
        except Exception as error:  # whatever an expression of the template may raise
            reason = str(error).strip().rstrip(".") or type(error).__name__
            raise self._error(_line_of(error), reason) from error
        if prompt:
            return prompt
        if turn > 1:
            return CONTINUATION_PROMPT
        raise self._error(1, "it is empty on the first turn")

    def _error(self, line: int, reason: str) -> PromptError:
        return PromptError(self.file, self.line + line - 1, reason)


@functools.cache
def environment() -> PromptSandbox:
    from .prompt_sandbox import PromptSandbox

    return PromptSandbox()


@functools.lru_cache(maxsize=64)
def compiled(text: str) -> tuple[Template, bool]:
    """The template, and whether it repeats anything: to watch over one that does not costs more than to render it.

    Raises `PromptError` with the line of the text.
    """
    from jinja2 import nodes

    with compiling():
        tree = environment().parse(text)
        can_take_long = any(tree.find(kind) for kind in (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Call))
        return environment().from_string(tree), can_take_long


@contextmanager
def compiling() -> Iterator[None]:
    """Whatever Jinja has against a text is raised as a `PromptError`."""
    from jinja2 import TemplateSyntaxError

    try:
        yield
    except TemplateSyntaxError as error:
        message = (error.message or "syntax error").rstrip(".")
        raise PromptError("prompt", error.lineno, f"template: {message[0].lower()}{message[1:]}") from error
    except (RecursionError, MemoryError, ArithmeticError, ValueError, SyntaxError) as error:
        raise PromptError("prompt", 1, "the template is too complex to be compiled") from error


def _pieces(template: Template, data: Mapping[str, Any]) -> Iterator[str]:
    length = 0
    for piece in template.generate(data):
        length += len(piece)
        if length > LONGEST_PROMPT:
            raise OverflowError(f"it is longer than {LONGEST_PROMPT:,} characters")
        yield piece


def _line_of(error: BaseException) -> int:
    from traceback import walk_tb

    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == "<template>"]
    return lines[-1] if lines else 1


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


def prompt_data(issue: Mapping[str, Any], attempt: int, turn: int, max_turns: int) -> dict[str, Any]:
    """Everything that a prompt can speak about; of the issue, its fields."""
    return {
        "issue": issue,
        "attempt": attempt,
        "run": {"turn_number": turn, "max_turns": max_turns, "is_continuation": turn > 1},
        "ci_failure": None,
        "review_comments": None,
    }
