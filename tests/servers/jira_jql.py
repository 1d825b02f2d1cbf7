"""As much of JQL as our test server understands: anything else is refused, in the words that Jira has for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>!=|=|[(),])|(?P<word>[^\s"'()=!,]+))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ORDERS = ("priority", "created", "key", "updated")


class JqlError(ValueError):
    """What Jira answers with status 400."""


class Searched(Protocol):
    """What the questions are about."""

    def value(self, field: str) -> Sequence[str]:
        """All values of the field, in any spelling."""

    def rank(self, field: str) -> Any:
        """By what it is ordered."""


Test = Callable[[Searched], bool]


def string_value(literal: str) -> str:
    """What a quoted string of JQL means."""

    def letter(match: re.Match[str]) -> str:
        found = match[1]
        return chr(int(found[1:], 16)) if len(found) == 5 else _LETTERS.get(found, found)

    return _ESCAPE.sub(letter, literal[1:-1])


def search(jql: str, issues: Sequence[Any], known: Mapping[str, Sequence[str]]) -> list[Any]:
    """The issues that it asks for, in its order. `known` has the values of each field that exists."""
    query = _Query(jql, known)
    found = [issue for issue in issues if query.test(issue)]
    for field, is_descending in reversed(query.orders):
        found.sort(key=lambda issue: issue.rank(field), reverse=is_descending)
    return found


class _Query:
    def __init__(self, jql: str, known: Mapping[str, Sequence[str]]) -> None:
        self._tokens = _tokens(jql)
        self._known = {field.lower(): {value.lower() for value in values} for field, values in known.items()}
        if not self._tokens or self._is_word("order"):
            raise JqlError(
                "Unbounded JQL queries are not allowed here. Please add a search restriction to your query."
            )
        self.test = self._any()
        self.orders = self._orders() if self._is_word("order") else []
        if self._tokens:
            raise JqlError(f"Error in the JQL Query: Expecting operator but got '{self._tokens[0][1]}'.")

    def _any(self) -> Test:
        tests = [self._all()]
        while self._is_word("or"):
            self._tokens.pop(0)
            tests.append(self._all())
        return lambda issue: any(test(issue) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._is_word("and"):
            self._tokens.pop(0)
            tests.append(self._one())
        return lambda issue: all(test(issue) for test in tests)

    def _one(self) -> Test:
        kind, text = self._next()
        if (kind, text) == ("sign", "("):
            test = self._any()
            self._expect(")")
            return test
        if kind == "word" and text.lower() == "not":
            inner = self._one()
            return lambda issue: not inner(issue)
        if text.lower() not in self._known:
            raise JqlError(f"Field '{text}' does not exist or you do not have permission to view it.")
        return self._comparison(text.lower())

    def _comparison(self, field: str) -> Test:
        kind, operator = self._next()
        is_negative = operator == "!=" or operator.lower() == "not"
        if operator.lower() == "not":
            kind, operator = self._next()
        if kind == "sign" and operator in ("=", "!="):
            values = [self._operand(field)]
        elif operator.lower() == "in":
            self._expect("(")
            values = [self._operand(field)]
            while self._tokens and self._tokens[0] == ("sign", ","):
                self._tokens.pop(0)
                values.append(self._operand(field))
            self._expect(")")
        else:
            raise JqlError(f"Error in the JQL Query: The operator '{operator}' is not supported here.")
        wanted = {value.lower() for value in values}
        return lambda issue: wanted.isdisjoint(value.lower() for value in issue.value(field)) == is_negative

    def _operand(self, field: str) -> str:
        kind, text = self._next()
        value = string_value(text) if kind == "string" else text
        if kind == "sign" or value.lower() not in self._known[field]:
            raise JqlError(f"The value '{value}' does not exist for the field '{field}'.")
        return value

    def _orders(self) -> list[tuple[str, bool]]:
        self._tokens.pop(0)
        if not self._is_word("by"):
            raise JqlError("Error in the JQL Query: Expecting 'by' after 'order'.")
        found: list[tuple[str, bool]] = []
        while not found or (self._tokens and self._tokens[0] == ("sign", ",")):
            self._tokens.pop(0)
            _, field = self._next()
            if field.lower() not in _ORDERS:
                raise JqlError(f"Not able to sort using field '{field}'.")
            direction = self._next()[1].lower() if self._is_word("asc") or self._is_word("desc") else "asc"
            found.append((field.lower(), direction == "desc"))
        return found

    def _is_word(self, word: str) -> bool:
        return bool(self._tokens) and self._tokens[0][0] == "word" and self._tokens[0][1].lower() == word

    def _next(self) -> tuple[str, str]:
        if not self._tokens:
            raise JqlError("Error in the JQL Query: The query ends too early.")
        return self._tokens.pop(0)

    def _expect(self, sign: str) -> None:
        if self._next() != ("sign", sign):
            raise JqlError(f"Error in the JQL Query: Expecting '{sign}'.")


def _tokens(jql: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, text = 0, jql.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match or not match.lastgroup:
            raise JqlError(f"Error in the JQL Query: The character '{text[at]}' is a reserved JQL character.")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found
