"""What one run is to do, complete and serialisable: any host can carry it out, on this machine or on another.

Nothing in it is alive; its paths lead to the workspace, to the programs of the agent and to the
workflow that its tools belong to. It is never written to the store: `tools.environment` may hold credentials.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..core.model import Issue, TokenRates
from ..core.records import WorkspaceRecord
from ..tools.definitions import FOR_ISSUES
from .messages import encode

WorkspaceKind = Literal["per issue", "shared checkout", "task folder"]
Signal = Literal[".sortie/status", "status.json", "none"]


class AgentSpec(Struct, frozen=True, kw_only=True):
    """Which agent, with which settings; `base` is the directory that relative programs and paths start from."""

    kind: str
    command: str = ""
    options: dict[str, Any] = {}
    base: str = ""
    read_timeout: float = 30.0


class PromptSpec(Struct, frozen=True, kw_only=True):
    """How the prompt of each turn is made: a template over the issue, or a text that is given as it is.

    `file` and `line` are where the text stands, for the sentence about what is wrong with it. `later` is the text
    of every turn after the first, where that is another one.
    """

    text: str
    later: str = ""
    is_template: bool = True
    file: str = "prompt"
    line: int = 1


class KnownWorkspace(Struct, frozen=True, kw_only=True):
    """What the store knows of the directory at this place; `used` says that an agent had a turn in it."""

    issue_id: str
    path: str
    inode: int = 0
    used: bool = False

    @classmethod
    def of(cls, record: WorkspaceRecord) -> KnownWorkspace:
        return cls(issue_id=record.issue_id, path=record.path, inode=record.inode, used=record.used)


class WorkspaceSpec(Struct, frozen=True, kw_only=True):
    """Where the run works.

    `per issue`: the directory `key` below `root`, made where it is missing, archived and removed when the issue is
    done. `task folder`: the same, but with the inbox and outbox of a task in it, and removed by its plan.
    `shared checkout`: `root` itself, which exists, and which we never make, archive or remove.
    """

    kind: WorkspaceKind = "per issue"
    root: str
    key: str = ""
    known: KnownWorkspace | None = None


class InboxFile(Struct, frozen=True, kw_only=True):
    """A file that goes to `name` below the inbox: copied, or `by_reference`. It is refused where it is not the one
    with this size and hash any more."""

    path: str
    name: str
    size: int
    sha256: str
    by_reference: bool = False


class Received(Struct, frozen=True, kw_only=True):
    """What another task hands over: files of its `folder`, each as (path there, path here, size, hash).

    `attempt` is the one that delivered them; 0 where a person accepted what was there."""

    task: str
    attempt: int = 0
    folder: str
    files: tuple[tuple[str, str, int, str], ...]


class TaskSpec(Struct, frozen=True, kw_only=True):
    """What the folder of a task holds before its agent starts, and what has to be in it afterwards.

    `made_by` tells what the task is given and asked for from anything else. `resumes`: the run before was cut
    short, and what is left of it may be gone on with. `outbox_bytes` and `outbox_files` bound what it may deliver;
    `skip_unsafe` leaves out what is no regular file instead of refusing all.
    """

    made_by: str
    skill: str
    instructions: str
    dependencies: dict[str, Any]
    inputs: tuple[InboxFile, ...] = ()
    received: tuple[Received, ...] = ()
    outputs: tuple[str, ...] = ()
    resumes: bool = False
    skip_unsafe: bool = False
    outbox_bytes: int
    outbox_files: int


class HooksSpec(Struct, frozen=True, kw_only=True):
    after_create: str = ""
    before_run: str = ""
    after_run: str = ""
    timeout: float = 60.0


class ToolsSpec(Struct, frozen=True, kw_only=True):
    """The tools that the agent is offered. `environment` is for the tool server alone; `servers` are the operator's
    own MCP servers, as the file that `mcp_config` names has them."""

    workflow: str
    database: str
    names: tuple[str, ...] = FOR_ISSUES
    credentials: Literal["workspace", "broker"] = "workspace"
    transitions: str = "project"
    project: str = ""
    environment: dict[str, str] = {}
    servers: dict[str, Any] = {}


class RunLimits(Struct, frozen=True, kw_only=True):
    """Times are seconds; a `stall_timeout` of 0 is none."""

    max_turns: int = 20
    turn_timeout: float = 3600.0
    stall_timeout: float = 300.0


class Conversation(Struct, frozen=True, kw_only=True):
    """The one to resume, and what it has cost so far."""

    session_id: str = ""
    cost_usd: float = 0.0


class RunSpec(Struct, frozen=True, kw_only=True):
    store_id: str
    run_id: str
    attempt: int
    issue: Issue
    agent: AgentSpec
    prompt: PromptSpec
    workspace: WorkspaceSpec
    signal: Signal = ".sortie/status"
    limits: RunLimits = RunLimits()
    hooks: HooksSpec = HooksSpec()
    environment: tuple[str, ...] = ()
    tools: ToolsSpec | None = None
    task: TaskSpec | None = None
    resume: Conversation = Conversation()
    rates: TokenRates | None = None


def encode_spec(spec: RunSpec) -> bytes:
    return encode(spec)


def decode_spec(data: bytes) -> RunSpec:
    return msgspec.json.decode(data, type=RunSpec)
