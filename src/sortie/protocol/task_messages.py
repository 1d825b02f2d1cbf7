"""Messages between tasks, one file each in `messages/`: numbered without gaps, whoever writes at the same time.

`{from}_to_{to}_{NNN}.json`, numbered from 001 for each sender and recipient. A message is written under another
name and linked to the next number that is free: it is there as a whole or not at all, and never over another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from .foreign_text import Keys, Malformed, json_bytes, parse_object, time_text
from .safefiles import CREATE, open_directory

Type = Literal["data_ready", "question", "answer", "update"]

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
SIZE_LIMIT = 64 * 1024
_TYPES: tuple[Type, ...] = get_args(Type)
_MOST_NUMBER = 10**12 - 1
_MESSAGE = re.compile(rf"({NAME.pattern})_to_({NAME.pattern})_([0-9]{{3}}|[1-9][0-9]{{3,11}})")
_LONGEST = 200


class MessageRefused(ValueError):
    """What was to be sent is no message; the text is a sentence that says what would be one."""


@dataclass(frozen=True, slots=True)
class Message:
    """`sent` is in seconds since the epoch; `in_reply_to` is the name of another message, without `.json`."""

    sender: str
    recipient: str
    seq: int
    sent: float
    type: Type
    content: Mapping[str, Any]
    in_reply_to: str = ""

    @property
    def name(self) -> str:
        """What an answer gives as `in_reply_to`."""
        return f"{self.sender}_to_{self.recipient}_{self.seq:03}"

    @property
    def document(self) -> dict[str, Any]:
        """What its file holds."""
        return {
            "from": self.sender,
            "to": self.recipient,
            "timestamp": time_text(self.sent),
            "type": self.type,
            "content": self.content,
            "seq": self.seq,
            "in_reply_to": self.in_reply_to or None,
        }


@dataclass(frozen=True, slots=True)
class Address:
    """What the name of a message's file says."""

    sender: str
    recipient: str
    seq: int

    @property
    def file(self) -> str:
        return f"{self.sender}_to_{self.recipient}_{self.seq:03}.json"


def send(
    messages: Path,
    sender: str,
    recipient: str,
    kind: str,
    content: Mapping[str, Any],
    *,
    now: float,
    in_reply_to: str = "",
) -> Message:
    """Put a message into the directory `messages`, under the next number of this sender and recipient.

    Raises `MessageRefused` for what is no message, and OSError where the directory takes none. Whether there is
    such a recipient is for the caller to know.
    """
    _refuse_names(sender, recipient)
    with open_directory(messages) as directory:
        number = _highest(directory, sender, recipient) + 1
        temporary = f".{sender}.{os.urandom(8).hex()}.tmp"
        descriptor = os.open(temporary, CREATE, 0o644, dir_fd=directory)
        try:
            while True:
                address = _address(sender, recipient, number)
                message, raw = _composed(address, kind, content, now, in_reply_to)
                _fill(descriptor, raw)
                try:
                    os.link(
                        temporary,
                        address.file,
                        src_dir_fd=directory,
                        dst_dir_fd=directory,
                        follow_symlinks=False,
                    )
                except FileExistsError:  # somebody else was faster
                    number += 1
                else:
                    return message
        finally:
            os.close(descriptor)
            os.unlink(temporary, dir_fd=directory)


def parse_address(file: str) -> Address | None:
    """None for a name that no message has."""
    found = _MESSAGE.fullmatch(file.removesuffix(".json")) if file.endswith(".json") else None
    return Address(found[1], found[2], int(found[3])) if found and int(found[3]) else None


def parse_message(raw: bytes, address: Address) -> Message:
    """Raises `Malformed` for bytes that are no message, or not the one that the name of its file says."""
    document, findings = parse_object(raw, SIZE_LIMIT)
    for key, named in (("from", address.sender), ("to", address.recipient)):
        if document.get(key) != named:
            raise Malformed(f"`{key}` must be {named}, as in its name")
    keys = Keys(document, "", findings)
    if document.get("seq") is not None and keys.whole("seq") != address.seq:
        raise Malformed(f"`seq` must be {address.seq}, as in its name")
    sent = keys.time("timestamp")
    if sent is None:
        raise Malformed("`timestamp` must be a time like 2024-01-15T10:30:00Z")
    kind = keys.one_of("type", _TYPES)
    content = keys.inner("content")
    if content is None:
        raise Malformed("`content` must be an object")
    in_reply_to = keys.text("in_reply_to", _LONGEST).removesuffix(".json")
    if in_reply_to and not parse_address(f"{in_reply_to}.json"):
        raise Malformed("`in_reply_to` must be the name of a message, like a_to_b_001")
    return Message(address.sender, address.recipient, address.seq, sent, kind, content.rest(), in_reply_to)


def _composed(
    address: Address, kind: str, content: Mapping[str, Any], now: float, in_reply_to: str
) -> tuple[Message, bytes]:
    """The message as its recipient will read it, and its bytes; what the recipient would not accept is not sent."""
    draft = Message(address.sender, address.recipient, address.seq, now, cast(Type, kind), content, in_reply_to)
    try:
        raw = json_bytes(draft.document)
        return parse_message(raw, address), raw
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageRefused(f"This is no message that can be sent: {error}.") from None


def _refuse_names(sender: str, recipient: str) -> None:
    for name in (sender, recipient):
        if not NAME.fullmatch(name):
            raise MessageRefused(
                f"{name!a} is no name of a task: use at most 64 small letters, digits and hyphens, no hyphen first."
            )
    if sender == recipient:
        raise MessageRefused(f"{sender} cannot send a message to itself: name another task.")


def _highest(directory: int, sender: str, recipient: str) -> int:
    pair = (sender, recipient)
    return max((found.seq for found in addresses(directory) if (found.sender, found.recipient) == pair), default=0)


def _address(sender: str, recipient: str, number: int) -> Address:
    if number > _MOST_NUMBER:
        raise MessageRefused(
            f"There is no number left after {sender}_to_{recipient}_{number - 1}: remove that file."
        )
    return Address(sender, recipient, number)


def addresses(directory: int) -> Iterator[Address]:
    """Of all files here that have the name of a message, in no order."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if address := parse_address(entry.name):
                yield address


def _fill(descriptor: int, raw: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    rest = memoryview(raw)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
