"""WORKFLOW.md as text and as values: read without ever blocking, split into settings and prompt, all lines exact.

Settings are YAML with the line of every key; duplicate keys, odd tags and YAML bombs are refused. Plan files
are read by the same functions.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from yaml.constructor import SafeConstructor

from .problems import Problems, Severity

LARGEST_FILE = 1024 * 1024
# Far beyond any real workflow. The parser below us would overflow its stack on deep nesting, and aliases of
# aliases can stand for more values than fit into memory.
DEEPEST = 40
MOST_VALUES = 5_000
LARGEST_NUMBER = 10**15

_TAG = "tag:yaml.org,2002:"
_PLAIN: dict[str, Callable[[SafeConstructor, yaml.ScalarNode], bool | int | float | None]] = {
    "null": SafeConstructor.construct_yaml_null,
    "bool": SafeConstructor.construct_yaml_bool,
    "int": SafeConstructor.construct_yaml_int,
    "float": SafeConstructor.construct_yaml_float,
}
# The one written in Python would be slow, and quotes the text in its errors.
_LOADER = yaml.CSafeLoader


class WorkflowText(Struct, frozen=True):
    """The two halves of the file; `prompt_line` is the line of the file on which the prompt begins."""

    settings: str
    prompt: str
    prompt_line: int


def read_file(
    path: Path, problems: Problems, *, missing: Severity = "error", largest: int = LARGEST_FILE
) -> bytes | None:
    """The content of a regular file of at most `largest` bytes; None, with the problem noted, for anything else."""
    severity: Severity = "error"
    try:
        # Opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                with open(descriptor, "rb", closefd=False) as file:
                    content = file.read(largest + 1)
                if len(content) <= largest:
                    return content
                message = f"the file is larger than {largest // (1024 * 1024)} MiB"
            else:
                message = "this is not a regular file"
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        severity, message = missing, "there is no such file"
    except OSError as error:
        message = f"the file cannot be read: {(error.strerror or 'unknown error').lower()}"
    except ValueError:
        message = "this is not a possible file name"
    problems.add(severity, message, file=str(path))
    return None


def decode(content: bytes, problems: Problems, *, file: str = "") -> str | None:
    """The text with one kind of line end; None, with the problem noted, where it is not UTF-8."""
    try:
        # YAML and Jinja both end a line at a single carriage return; the line numbers follow them.
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.error("this is not UTF-8 text; save the file as UTF-8", line=line, file=file)
        return None


def split(content: bytes, problems: Problems) -> WorkflowText | None:
    """Settings between the first two lines `---`, the prompt after them; None where that form is missing."""
    text = decode(content, problems)
    if text is None:
        return None
    lines = text.split("\n")
    if len(lines) < 2 or not _is_fence(lines[0]):
        problems.error(
            'the file must begin with a line "---", then YAML settings, "---" again and the prompt', line=1
        )
        return None
    closing = next((number for number, line in enumerate(lines[1:], 2) if _is_fence(line)), None)
    if closing is None:
        problems.error('the settings that begin here never end; add a line "---" before the prompt', line=1)
        return None
    prompt = "\n".join(lines[closing:])
    if not prompt.strip():
        problems.error("the prompt is empty; write it after this line", line=closing)
    return WorkflowText("\n".join(lines[1 : closing - 1]) + "\n", prompt, closing + 1)


def _is_fence(line: str) -> bool:
    return line.rstrip(" \t") == "---"


class Tree(Struct, frozen=True):
    """`values` is the outermost map; `lines` has a line for each key path such as `agent.max_turns`.

    `unusable` holds the key paths whose value is a problem already; they stand in `values` as None.
    """

    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    unusable: Collection[str] = ()

    def line_of(self, key: str) -> int:
        """The line of a key, or of the nearest section around it that is written down."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key, 1)


class Extent(Struct, frozen=True, kw_only=True):
    """Of the YAML in its file: what people call it, a key of it, its first line, and the most values in it."""

    noun: str
    key: str
    first_line: int
    most_values: int


# They stand below a fence.
SETTINGS = Extent(noun="the settings", key="tracker", first_line=2, most_values=MOST_VALUES)


def read_tree(text: str, problems: Problems, extent: Extent = SETTINGS) -> Tree | None:
    """The values, or None with the problem noted where they are not a YAML map."""
    noun, first = extent.noun, extent.first_line
    try:
        if _too_deep(text):
            problems.error(f"values in {noun} are nested too deeply", line=first)
            return None
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        line, message = _syntax_error(error, text)
        problems.error(f"not valid YAML: {message}", line=first + line)
        return None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null"):
        return Tree()
    if not isinstance(root, yaml.MappingNode):
        problems.error(f'{noun} must be a map of keys and values such as "{extent.key}:"', line=first)
        return None
    conversion = _Conversion(text, problems, extent)
    try:
        return Tree(conversion.mapping(root, "", 0), conversion.lines, conversion.unusable)
    except _TooMuch:
        problems.error(f"too many values are in {noun}, or one that refers to itself", line=first)
        return None


def _too_deep(text: str) -> bool:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            return True
    return False


def _syntax_error(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """How many lines into the text, and what is wrong; never a piece of the text, which may be a secret."""
    if isinstance(error, yaml.reader.ReaderError):
        return text.encode().count(b"\n", 0, error.position), str(error.reason)
    if isinstance(error, yaml.MarkedYAMLError):
        line = text.count("\n", 0, error.problem_mark.index) if error.problem_mark else 0
        # An unfinished construct is noticed at the end of the text, one line below its last.
        line = min(line, text.count("\n") - 1)
        return max(line, 0), " ".join(part for part in (error.context, error.problem) if part)
    return 0, "it cannot be parsed"


class _TooMuch(Exception):
    pass


class _Conversion:
    def __init__(self, text: str, problems: Problems, extent: Extent) -> None:
        self.lines: dict[str, int] = {}
        self.unusable: set[str] = set()
        self._line_ends = [found.start() for found in re.finditer("\n", text)]
        self._problems = problems
        self._first_line = extent.first_line
        self._most_values = extent.most_values
        self._values = 0
        self._constructor = SafeConstructor()

    def mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = self._line(key_node)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == _TAG + "merge":
                self._problems.error("only plain keys are possible here", key=path, line=line)
                continue
            key = key_node.value
            key_path = f"{path}.{key}" if path else key
            if key in result:
                first = self.lines[key_path]
                self._problems.error(f"is given twice, first on line {first}", key=key_path, line=line)
                continue
            self.lines[key_path] = line
            result[key] = self._value(value_node, key_path, depth + 1)
        return result

    def _value(self, node: yaml.Node, path: str, depth: int) -> Any:
        self._values += 1
        if self._values > self._most_values or depth > DEEPEST + 1:
            raise _TooMuch
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            values = []
            for index, item in enumerate(node.value):
                self.lines[f"{path}.{index}"] = self._line(item)
                values.append(self._value(item, f"{path}.{index}", depth + 1))
            return values
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("str", "timestamp"):
            return self._unusable(node, path, "contains a NUL character") if "\0" in node.value else node.value
        try:
            value = _PLAIN[kind](self._constructor, node)
        except (ValueError, LookupError, ArithmeticError):
            return self._unusable(node, path, "cannot be understood; put it in quotes")
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            return self._unusable(node, path, "is too large a number")
        return value

    def _unusable(self, node: yaml.Node, path: str, message: str) -> None:
        self._problems.error(message, key=path, line=self._line(node))
        section, _, name = path.rpartition(".")
        # One bad entry spoils its list.
        self.unusable |= {path, section} if name.isdigit() else {path}

    def _line(self, node: yaml.Node) -> int:
        # Counted here: the parser takes some characters for line ends that no editor counts.
        return self._first_line + bisect_left(self._line_ends, node.start_mark.index)
