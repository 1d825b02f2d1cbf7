"""The messages of the Agent Client Protocol that we read, with those of their fields that matter. Pure.

Optional fields may be missing or null; a field of another type than here makes the message unreadable.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, field

from ...core.model import Usage

Count = Annotated[int, Meta(ge=0)]


class Implementation(Struct, frozen=True):
    name: str = ""
    version: str = ""


class McpCapabilities(Struct, frozen=True):
    http: bool = False
    sse: bool = False


class Capabilities(Struct, frozen=True, rename="camel"):
    """A capability of sessions that is an object, even an empty one, says that the agent can."""

    load_session: bool = False
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: dict[str, Any] | None = None


class Named(Struct, frozen=True):
    """One of several that there are: a way to log in, a mode."""

    id: str = ""


class InitializeAnswer(Struct, frozen=True, rename="camel"):
    protocol_version: int
    auth_methods: list[Named] | None = None
    agent_capabilities: Capabilities | None = None
    agent_info: Implementation | None = None


class Modes(Struct, frozen=True, rename="camel"):
    available_modes: list[Named] = []


class Choice(Struct, frozen=True):
    value: str


class ConfigOption(Struct, frozen=True):
    """`options` may also come in groups."""

    id: str = ""
    category: str | None = None
    options: Any = None
    current: Any = field(name="currentValue", default=None)

    @property
    def values(self) -> list[str]:
        try:
            return [choice.value for choice in msgspec.convert(self.options, list[Choice])]
        except msgspec.ValidationError:
            return []


class Model(Struct, frozen=True, rename="camel"):
    model_id: str = ""


class Models(Struct, frozen=True, rename="camel"):
    available_models: list[Model] = []
    current_model_id: Any = None


class SessionAnswer(Struct, frozen=True, rename="camel"):
    """The answer to session/new, session/load and session/resume."""

    session_id: str = ""
    modes: Modes | None = None
    models: Models | None = None
    config_options: list[ConfigOption] | None = None

    def option(self, category: str) -> ConfigOption | None:
        return next((one for one in self.config_options or [] if one.category == category), None)

    @property
    def mode_names(self) -> list[str]:
        if self.modes is not None:
            return [mode.id for mode in self.modes.available_modes]
        option = self.option("mode")
        return option.values if option is not None else []

    @property
    def model_names(self) -> list[str]:
        if option := self.option("model"):
            return option.values
        return [model.model_id for model in self.models.available_models] if self.models else []

    @property
    def current_model(self) -> str:
        """Empty where the agent does not tell, or has a word for its own choice only."""
        option = self.option("model")
        told = option.current if option else self.models.current_model_id if self.models else None
        return told if isinstance(told, str) and told not in ("auto", "default") else ""


class Sessions(Struct, frozen=True):
    sessions: list[SessionAnswer] = []


class PermissionOption(Struct, frozen=True, rename="camel"):
    option_id: str
    kind: str = ""


class UpdateParams(Struct, frozen=True, rename="camel"):
    session_id: str = ""
    update: Raw = Raw(b"{}")


class UpdateHead(Struct, frozen=True, rename="camel"):
    session_update: str = ""


class Block(Struct, frozen=True):
    type: str = ""
    text: str = ""


class Extended(Struct, frozen=True):
    """Whatever an agent tells beyond the protocol is in `_meta`."""

    meta: Any = field(name="_meta", default=None)

    def beyond_protocol(self, *keys: str) -> Any:
        return member(self.meta, *keys)


class Chunk(Extended, frozen=True):
    content: Block = Block()
    message_id: str | None = field(name="messageId", default=None)


class AcpToolCall(Struct, frozen=True, rename="camel"):
    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: Any = None
    raw_output: Any = None
    content: Any = None

    @property
    def called(self) -> str:
        """The tool's name where it is told; a title may be a whole command line, then the kind says more."""
        title = self.title or ""
        if self.kind not in (None, "other") and len(title.split()) != 1:
            return self.name or str(self.kind)
        return self.name or title or "tool"


class Cost(Struct, frozen=True):
    amount: Annotated[float, Meta(ge=0)]
    currency: str = ""


class UsageUpdate(Extended, frozen=True):
    cost: Cost | None = None


class Stopped(Struct, frozen=True, rename="camel"):
    """The answer to session/prompt: why the turn ended; what it used is read apart."""

    stop_reason: str = ""


class AcpTokens(Struct, frozen=True, rename="camel"):
    total_tokens: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_read_tokens: Count | None = None
    cached_write_tokens: Count | None = None
    thought_tokens: Count | None = None

    def as_usage(self) -> Usage:
        """Whether cached tokens are part of the input, and thoughts of the output, only their total tells."""
        read, thoughts = self.cached_read_tokens or 0, self.thought_tokens or 0
        cached = read + (self.cached_write_tokens or 0)
        beyond = self.total_tokens - self.input_tokens - self.output_tokens
        apart = cached if beyond >= cached else 0
        thought_apart = thoughts if beyond - apart >= thoughts else 0
        return Usage(self.input_tokens + apart, self.output_tokens + thought_apart, read)


class Counts(Struct, frozen=True):
    input_tokens: Count
    output_tokens: Count


class Counted(Extended, frozen=True):
    """The answer to session/prompt: what the turn used. Gemini CLI tells it in its own way."""

    usage: AcpTokens | None = None

    def as_usage(self) -> Usage:
        if self.usage:
            return self.usage.as_usage()
        try:
            counts = msgspec.convert(self.beyond_protocol("quota", "token_count"), Counts)
        except msgspec.ValidationError:
            return Usage()
        return Usage(counts.input_tokens, counts.output_tokens)

    @property
    def model(self) -> Any:
        """The first of those that it was used by, which is the conversation's own."""
        used = self.beyond_protocol("quota", "model_usage")
        return member(used[0], "model") if isinstance(used, list) and used else None


class PermissionRequest(Struct, frozen=True, rename="camel"):
    tool_call: AcpToolCall
    options: list[PermissionOption] = []


def member(value: Any, *keys: str) -> Any:
    """What is found at the end of these keys; None where there is nothing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
