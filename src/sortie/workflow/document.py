"""WORKFLOW.md as text and as values: read without ever blocking, split into settings and prompt, all lines exact.

Settings are YAML with the line of every key; duplicate keys, odd tags and YAML bombs are refused.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from yaml.constructor import SafeConstructor

from ..errors import ConfigurationError
from .config import line_of
from .problems import Problems

LARGEST_FILE = 1024 * 1024
# Far beyond any real workflow. The parser below us would overflow its stack on deep nesting, and aliases of
# aliases can stand for more values than fit into memory.
DEEPEST = 40
MOST_VALUES = 5_000
LARGEST_NUMBER = 10**15

_TAG = "tag:yaml.org,2002:"
# The one written in Python would be slow, and quotes the text in its errors.
_LOADER = yaml.CSafeLoader


class WorkflowText(Struct, frozen=True):
    """The two halves of the file, each with the line of the file on which it begins."""

    settings: str
    settings_line: int
    prompt: str
    prompt_line: int


def read_file(path: Path) -> bytes:
    """The content of a regular file of at most a mebibyte; anything else is refused in one sentence."""
    try:
        # Opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise ConfigurationError("there is no such file") from error
    except OSError as error:
        raise _unreadable(error) from error
    except ValueError as error:
        raise ConfigurationError("this is not a possible file name") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigurationError("this is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(error) from error
    finally:
        os.close(descriptor)
    if len(content) > LARGEST_FILE:
        raise ConfigurationError("the file is larger than 1 MiB")
    return content


def _unreadable(error: OSError) -> ConfigurationError:
    return ConfigurationError(f"the file cannot be read: {(error.strerror or 'unknown error').lower()}")


def decode(content: bytes, problems: Problems, *, file: str = "") -> str | None:
    """The text with one kind of line end; None, with the problem noted, where it is not UTF-8."""
    try:
        # YAML and Jinja both end a line at a single carriage return; the line numbers follow them.
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.error("this is not UTF-8 text; save the file as UTF-8", line=line, file=file)
        return None


def split(text: str, problems: Problems) -> WorkflowText | None:
    """Settings between the first two lines `---`, the prompt after them; None where that form is missing."""
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
    return WorkflowText("\n".join(lines[1 : closing - 1]) + "\n", 2, prompt, closing + 1)


def _is_fence(line: str) -> bool:
    return line.rstrip(" \t") == "---"


class Tree(Struct, frozen=True):
    """`values` is the outermost map; `lines` has a line for each key path such as `agent.max_turns`.

    `unusable` holds the key paths whose value is a problem already; they stand in `values` as None.
    """

    values: dict[str, Any]
    lines: dict[str, int]
    unusable: frozenset[str] = frozenset()

    def line_of(self, key: str) -> int:
        return line_of(self.lines, key)


def read_tree(text: str, first_line: int, problems: Problems) -> Tree | None:
    """The settings, or None with the problem noted where they are not a YAML map."""
    try:
        if _too_deep(text):
            problems.error("the settings are nested too deeply", line=first_line)
            return None
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        line, message = _syntax_error(error, text)
        problems.error(f"not valid YAML: {message}", line=first_line + line)
        return None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null"):
        return Tree({}, {})
    if not isinstance(root, yaml.MappingNode):
        problems.error('the settings must be a map of keys and values such as "tracker:"', line=first_line)
        return None
    conversion = _Conversion(text, first_line, problems)
    try:
        values = conversion.mapping(root, "")
        return Tree(values, conversion.lines, frozenset(conversion.unusable))
    except _TooMuch:
        problems.error("the settings contain too many values, or refer to themselves", line=first_line)
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
    def __init__(self, text: str, first_line: int, problems: Problems) -> None:
        self.lines: dict[str, int] = {}
        self.unusable: set[str] = set()
        self._first_line = first_line
        self._line_ends = [index for index, character in enumerate(text) if character == "\n"]
        self._problems = problems
        self._values = 0
        self._depth = 0
        self._constructor = SafeConstructor()

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
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
            result[key] = self._value(value_node, key_path)
        return result

    def _value(self, node: yaml.Node, path: str) -> Any:
        self._values += 1
        self._depth += 1
        if self._values > MOST_VALUES or self._depth > DEEPEST + 1:
            raise _TooMuch
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self._item(item, f"{path}.{index}") for index, item in enumerate(node.value)]
            assert isinstance(node, yaml.ScalarNode)
            return self._scalar(node, path)
        finally:
            self._depth -= 1

    def _item(self, node: yaml.Node, path: str) -> Any:
        self.lines[path] = self._line(node)
        return self._value(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("str", "timestamp"):
            return self._unusable(node, path, "contains a NUL character") if "\0" in node.value else node.value
        try:
            value = self._plain(kind, node)
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

    def _plain(self, kind: str, node: yaml.ScalarNode) -> bool | int | float | None:
        match kind:
            case "null":
                return None
            case "bool":
                return bool(self._constructor.construct_yaml_bool(node))
            case "int":
                return int(self._constructor.construct_yaml_int(node))
            case "float":
                return float(self._constructor.construct_yaml_float(node))
        raise ValueError(kind)

    def _line(self, node: yaml.Node) -> int:
        # Counted here: the parser takes some characters for line ends that no editor counts.
        return self._first_line + bisect_left(self._line_ends, node.start_mark.index)
