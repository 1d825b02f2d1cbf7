"""What all coding-agent programs have in common: a block of options, a program, a login, and an environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import anyio
from msgspec import Struct

from ..core.model import Finding
from ..errors import AgentError
from .agent import AgentSession, AgentSettings, Reporter, SessionOrder
from .command_line import check_command, locate, missing_program
from .options import check_options, read_options
from .program import Program

Options = TypeVar("Options", bound=Struct)

# How a program that runs on Node.js reaches its provider.
NETWORK_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS")


class CliAgent(ABC, Generic[Options]):
    """One coding-agent program. What is particular to it is in its subclass and nowhere else.

    `keys` are the variables of which one must be set, unless one of the files `login_files` (below HOME) exists;
    `settings` are variables of its own that are passed on where they are set; `fixed_environment` are always set.
    """

    kind: ClassVar[str]
    program: ClassVar[Program]
    options_type: ClassVar[type[Any]]
    keys: ClassVar[tuple[str, ...]] = ()
    login_files: ClassVar[tuple[str, ...]] = ()
    login_fix: ClassVar[str] = ""
    settings: ClassVar[tuple[str, ...]] = ()
    fixed_environment: ClassVar[Mapping[str, str]] = {}
    variables: ClassVar[tuple[str, ...]] = ()
    needs_login: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        cls.variables = (*cls.keys, *cls.settings)

    def __init__(self, settings: AgentSettings) -> None:
        self.command = settings.command or self.program.command
        self.options: Options = read_options(self.options_type, settings.options)
        self.base = settings.base.absolute()
        self.read_timeout = settings.read_timeout
        self.first_start = FirstStart()

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> Self:
        return cls(settings)

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        return [*check_options(cls.kind, cls.options_type, settings.options), *check_command(settings.command)]

    def missing(self, environment: Mapping[str, str]) -> AgentError | None:
        return missing_program(self.command, self.base, {**environment, **self.fixed_environment})

    async def examine(self, environment: Mapping[str, str]) -> list[Finding]:
        complete = {**environment, **self.fixed_environment}
        return [*await self.program.examine(self.command, self.base, complete), self.login(environment)]

    def login(self, environment: Mapping[str, str]) -> Finding:
        """Whether there is a key or the trace of a login; whether it is accepted only the provider can tell."""
        if present := [name for name in self.keys if environment.get(name)]:
            return Finding("PASS", "login", f"{present[0]} is set")
        home = Path(environment.get("HOME", "/"))
        if files := [name for name in self.login_files if (home / name).exists()]:
            return Finding("PASS", "login", f"~/{files[0]} is there")
        return Finding("FAIL", "login", "there is neither a key nor a login.", self.login_fix)

    def environment(self, order: SessionOrder) -> dict[str, str]:
        """The complete environment of its processes."""
        return {**order.environment, **self.fixed_environment}

    def located(self, order: SessionOrder) -> str:
        return locate(self.command, self.base, order.workspace)

    @abstractmethod
    async def open(self, order: SessionOrder, reporter: Reporter) -> AgentSession: ...


class FirstStart:
    """For programs that make or convert a database when they start: two that do so at once find it half made.

    `gate` is a block that nobody else is in until one has gone through it without an error: then it is open.
    """

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self.open = False

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        async with self._lock:
            if not self.open:
                yield
                self.open = True
                return
        yield
