"""Recognises prompts in Go template syntax and says how each line is written in Jinja."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ACTION = re.compile(r"\{\{(-?)([^\n{}]*?)(-?)\}\}")
_LITERAL = re.compile(
    r"(?P<raw>\{%-?\s*raw\s*-?%\})|(?P<endraw>\{%-?\s*endraw\s*-?%\})|(?P<comment>\{(?=#))|(?P<endcomment>#\})"
)
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*+\\?(?:"|\Z)|`[^`]*(?:`|\Z)|[()|]|[^\s()|"`]+')

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FILTERS = {"toJSON": "tojson", "lower": "lower", "len": "length"}
_FUNCTIONS = {*_COMPARISONS, *_FILTERS, "and", "or", "not", "join", "index", "print", "printf", "println"}

_GO = re.compile(
    r"[.$]|/\*"  # .issue.title, $comment, a comment
    r"|(?:if|range|with|else\s+if)\s|(?:else|end)$"
    rf"|(?:{'|'.join(sorted(_FUNCTIONS))})\s(?:.*[\s(])?[.$]"  # join ", " .issue.labels
)


def go_lines(prompt: str) -> Iterator[tuple[int, str]]:
    """The number (from 1) of each line in Go template syntax, and that line in Jinja."""
    translation = _Translation()
    for number, line in enumerate(_without_literals(prompt).split("\n"), 1):
        if any(_GO.match(action[2].strip()) for action in _ACTION.finditer(line)):
            yield number, _ACTION.sub(translation.action, line).strip()


def _without_literals(prompt: str) -> str:
    """Of raw blocks and comments that have an end, only the line ends."""
    marks = list(_LITERAL.finditer(prompt))
    last = {mark.lastgroup: mark.start() for mark in marks}
    pieces: list[str] = []
    shown_to, opened, end = 0, 0, ""
    for mark in marks:
        if not end and last.get(f"end{mark.lastgroup}", -1) > mark.start() + 1:
            opened, end = mark.start(), f"end{mark.lastgroup}"
        elif end == mark.lastgroup and mark.start() > opened + 1:  # `{#}` does not end itself
            pieces += [prompt[shown_to:opened], "\n" * prompt.count("\n", opened, mark.end())]
            shown_to, end = mark.end(), ""
    return "".join([*pieces, prompt[shown_to:]])


class _Translation:
    """Follows the blocks, for what `end` closes and what the dot stands for."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, str]] = []

    def action(self, found: re.Match[str]) -> str:
        left, body, right = found[1], found[2].strip(), found[3]
        if not _GO.match(body):
            return found[0]
        if body.startswith("/*"):
            return f"{{#{left} {body.removeprefix('/*').removesuffix('*/').strip()} {right}#}}"
        statement = self._statement(body)
        if statement:
            return f"{{%{left} {statement} {right}%}}"
        return f"{{{{{left} {self._pipeline(body)} {right}}}}}"

    def _statement(self, body: str) -> str:
        word, _, rest = body.partition(" ")
        rest = rest.strip()
        match word:
            case "if" | "with":
                value = self._pipeline(rest)
                self._blocks.append(("endif", value if word == "with" else self._dot()))
                return f"if {value}"
            case "else" if rest.startswith("if "):
                return f"elif {self._pipeline(rest[3:])}"
            case "else":
                return "else"
            case "range":
                return self._range(rest)
            case "end":
                return self._blocks.pop()[0] if self._blocks else "endif"
        assigned = re.match(r"\$(\w+)\s*:?=\s*(.+)", body)
        return f"set {assigned[1]} = {self._pipeline(assigned[2])}" if assigned else ""

    def _range(self, rest: str) -> str:
        named = re.match(r"(?:\$\w+\s*,\s*)?\$(\w+)\s*:=\s*(.+)", rest)
        name, values = (named[1], named[2]) if named else ("item", rest)
        loop = f"for {name} in {self._pipeline(values)}"
        self._blocks.append(("endfor", name))
        return loop

    def _dot(self) -> str:
        return self._blocks[-1][1] if self._blocks else ""

    def _pipeline(self, text: str) -> str:
        return self._parse(_TOKEN.findall(text))

    def _parse(self, tokens: list[str]) -> str:
        """Consumes tokens up to the closing parenthesis or the end."""
        result = ""
        words: list[str] = []
        while tokens:
            match tokens.pop(0):
                case ")":
                    break
                case "|":
                    result, words = self._command(words, result), []
                case "(":
                    words.append(f"({self._parse(tokens)})")
                case word:
                    words.append(self._term(word))
        return self._command(words, result)

    def _term(self, word: str) -> str:
        if word == ".":
            return self._dot() or "issue"
        if word.startswith("$."):
            return word[2:]
        if word.startswith("."):
            return f"{self._dot()}{word}".lstrip(".")
        if word.startswith("`"):
            return f'"{word[1:-1]}"'
        return {"nil": "none"}.get(word, word.removeprefix("$"))

    def _command(self, words: list[str], piped: str) -> str:
        """One command of a pipeline; what is piped into it is its last argument."""
        if not words:
            return piped
        name, arguments = words[0], [*words[1:], *([piped] if piped else [])]
        if name not in _FUNCTIONS or not arguments:
            return " ".join(words)
        if name in _COMPARISONS and len(arguments) == 2:
            return f"{arguments[0]} {_COMPARISONS[name]} {arguments[1]}"
        if name in _FILTERS:
            return f"{arguments[0]} | {_FILTERS[name]}"
        match name:
            case "not":
                return f"not {arguments[0]}"
            case "and" | "or":
                return f" {name} ".join(arguments)
            case "join":
                return f"{arguments[-1]} | join({arguments[0]})"
            case "index":
                return arguments[0] + "".join(f"[{place}]" for place in arguments[1:])
            case "printf":
                return f"{arguments[0]} | format({', '.join(arguments[1:])})"
        return " ~ ".join(arguments)
