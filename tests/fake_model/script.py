"""The script in a prompt: what its steps may be, and which of them a conversation has come to.

    Please work. <script>[{"shell": "make"}, {"mcp": "report", "args": {"ok": true}}, {"text": "done"}]</script>

The last prompt with a script counts, and the tool results after it say how far the agent has come. So nothing about
a conversation is remembered here, and agents that retry, resume or run side by side all get what is next for them.

    {"text": "…"}                    says it; with "stop": "refusal" the model declines
    {"shell": "command"}             calls the agent's own shell tool, whatever its name; "take" is a pattern, and
                                     what it finds in the last result stands in the place of @TAKEN@ in the command
    {"mcp": "tool", "args": {…}}     calls the tool whose name ends with this one
    {"tool": "Name", "args": {…}}    calls the tool of exactly this name
    {"http": 429, "message": "…", "headers": {…}, "body": {…}}    fails with this status
    {"hang": 30}                     answers nothing for so many seconds, then closes the connection
    {"stall": 30}                    begins an answer, is silent for so many seconds, then closes
    {"drop": true}                   begins an answer, then closes

Any step takes "sleep": seconds before it, and "usage": [input, output] or {"input": …, "output": …, "cached": …}.
The last four are faults, no part of the conversation: they come "times" times (without it, always), and then the
step after them has its turn. Equal scripts share that count; an "id" of your choice in a fault makes them unequal.
A text with "times" is passed in the same way: what comes after it is for the next turn of the same script.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .steps import Script, is_passed, parse
from .wire import Heard, Prompt, Result

OPENING, CLOSING = "<script>", "</script>"


@dataclass(frozen=True)
class Place:
    """Where a conversation is: `source` is the list of steps it last got, not looked at any further."""

    source: list[object] | None
    prompts: int
    results: int
    last_result: str | None

    def script(self, fallback: Script) -> Script:
        return fallback if self.source is None else parse(self.source)


def place_of(heard: Sequence[Heard]) -> Place:
    source: list[object] | None = None
    prompts = results = 0
    last_result = None
    for said in heard:
        match said:
            case Result(text):
                results += 1
                last_result = text
            case Prompt(text) if (found := _script_in(text)) is not None:
                source, last_result, results = found, None, 0
                prompts += 1
    return Place(source, prompts, results, last_result)


def next_step(script: Script, results: int, takes_place: Callable[[int], bool]) -> int | None:
    """The index of the step that is due; `takes_place` is asked of what is passed without a result."""
    to_pass = results
    for index, step in enumerate(script.steps):
        if is_passed(step):
            if to_pass == 0 and takes_place(index):
                return index
        elif to_pass == 0:
            return index
        else:
            to_pass -= 1
    return None


def _script_in(text: str) -> list[object] | None:
    end = text.rfind(CLOSING)
    start = text.rfind(OPENING, 0, max(end, 0))
    if start < 0:
        return None
    source = text[start + len(OPENING) : end]
    # Some agents quote their arguments once more on the way into the prompt.
    for spelling in (source, source.replace('\\"', '"')):
        try:
            found = json.loads(spelling)
        except ValueError:
            continue
        if isinstance(found, list) and found:
            return found
    return None
