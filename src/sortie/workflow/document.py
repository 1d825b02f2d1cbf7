"""The file WORKFLOW.md as text: read without ever blocking, split into settings and prompt, line numbers exact."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec import Struct

from ..errors import ConfigurationError
from .problems import Problems

LARGEST_FILE = 1024 * 1024


class Document(Struct, frozen=True):
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


def split(text: str, problems: Problems) -> Document | None:
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
    return Document("\n".join(lines[1 : closing - 1]) + "\n", 2, prompt, closing + 1)


def _is_fence(line: str) -> bool:
    return line.rstrip(" \t") == "---"
