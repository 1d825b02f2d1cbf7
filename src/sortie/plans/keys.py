"""All keys of a plan file, each once: what it means, what may stand there, and what it becomes."""

from __future__ import annotations

from msgspec import Struct

from ..core.model import Limits
from ..workflow.fields import Flag, Limit, Milliseconds, Number, OneOf, Options, PlainText, Texts, Whole
from .plan import CONSOLIDATED, MESSAGES, Dependency, Plan, Task, TaskAgent, TaskInput, TaskOutput, WaitFor
from .shape import BoxPath, BoxPaths, Key, Lines, Many, Name, Section, SourcePath, TaskName, Text
from .skills import TEMPLATES

BUDGET = Limits(sessions=200, turns=2000, tokens=200_000_000, usd=200.0)
TURNS_OF_COMMANDS = 1


class Skill(Struct, frozen=True, kw_only=True):
    """Which text becomes SKILL.md; exactly one is given."""

    template: str = ""
    file: str = ""
    text: str = ""


def _limits(name: str, of: str, usual: Limits) -> Section:
    bounds = {
        "sessions": ("sessions", Limit(of=Whole(least=1))),
        "turns": ("turns", Limit(of=Whole(least=1))),
        "tokens": ("tokens", Limit(of=Whole(least=1))),
        "usd": ("US dollars", Limit(of=Number())),
    }
    return Section(
        name=name,
        makes=Limits,
        keys={
            key: Key(
                meaning=f"The most {noun} {of}; 0 or unlimited for no bound.",
                content=content,
                default=getattr(usual, key),
            )
            for key, (noun, content) in bounds.items()
        },
    )


SKILL = Section(
    name="skill",
    makes=Skill,
    short="template",
    exactly_one=True,
    keys={
        "template": Key(meaning="A built-in skill.", content=OneOf(options=TEMPLATES)),
        "file": Key(meaning="A Markdown file, relative to the plan file.", content=SourcePath()),
        "text": Key(meaning="The text itself.", content=Text()),
    },
)

INPUT = Section(
    name="input",
    makes=TaskInput,
    short="path",
    keys={
        "path": Key(meaning="A file or directory, relative to the plan file.", content=SourcePath(), required=True),
        "as": Key(
            meaning="Its path below inbox/; if left out, its own name.", content=BoxPath(top="inbox"), field="name"
        ),
        "description": Key(meaning="What it contains.", content=Text()),
        "reference": Key(
            meaning="Hand over its path, size and hash instead of a copy, whatever its size.",
            content=Flag(),
            field="by_reference",
        ),
    },
)

OUTPUT = Section(
    name="output",
    makes=TaskOutput,
    short="path",
    keys={
        "path": Key(
            meaning="A file below outbox/, or with a slash at the end a directory of at least one file.",
            content=BoxPath(top="outbox"),
            required=True,
        ),
        "description": Key(meaning="What it is to contain.", content=Text()),
    },
)

ON_FAILURE = Key(
    meaning="What becomes of this task where the other one fails or is skipped: it does not start (block), it "
    "starts without (continue), or it fails too (fail).",
    content=OneOf(options=("block", "continue", "fail")),
)

DEPENDENCY = Section(
    name="dependency",
    makes=Dependency,
    short="task",
    keys={
        "task": Key(meaning="The name of the other task.", content=TaskName(), required=True),
        "outputs": Key(
            meaning="Which of its outputs are handed on; if left out or empty, all it declares and summary.md.",
            content=BoxPaths(top="outbox"),
        ),
        "copy_to": Key(
            meaning="The directory below inbox/ that they are copied to; if left out, inbox/<task>/.",
            content=BoxPath(top="inbox", directory=True),
        ),
        "on_failure": ON_FAILURE,
    },
)

WAIT = Section(
    name="wait",
    makes=WaitFor,
    short="task",
    keys={
        "task": Key(meaning="The name of the other task.", content=TaskName(), required=True),
        "on_failure": ON_FAILURE,
    },
)

AGENT = Section(
    name="agent",
    makes=TaskAgent,
    keys={
        "kind": Key(meaning="Which agent: claude-code, codex, command, ...", content=PlainText(filled=True)),
        "command": Key(
            meaning="How its program is started; a script beside the plan file is found by ./name.",
            content=PlainText(),
        ),
        "model": Key(meaning="The model, where the agent has a choice.", content=PlainText()),
        "credential": Key(meaning="The account that pays, where there is more than one.", content=PlainText()),
        "options": Key(meaning="Further settings of this kind of agent; see docs/agents.md.", content=Options()),
        "env": Key(
            meaning="Names of environment variables that are passed on to it.", content=Texts(of_variables=True)
        ),
        "read_timeout_ms": Key(
            meaning="How long it may take to answer where an answer is due at once.",
            content=Milliseconds(least=1),
        ),
    },
)

# Those that can be given once for all tasks.
_SHARED = {
    "agent": Key(meaning="Who works on it.", content=AGENT),
    "skill": Key(
        meaning="What the agent is to be good at, for its SKILL.md: the name of a built-in skill, {file: ...} or "
        "{text: ...}.",
        content=SKILL,
    ),
    "context": Key(meaning="Background that helps to understand the task.", content=Text()),
    "constraints": Key(
        meaning="Limits of time, resources and quality. Those of the defaults hold too.", content=Lines()
    ),
    "retries": Key(meaning="How often a task that failed is tried again by itself.", content=Whole(least=0)),
    "retry_delay_ms": Key(meaning="How long to wait before that.", content=Milliseconds(least=0)),
    "when_failed": Key(
        meaning="What happens after the last retry: the task fails, or a person is asked (escalate).",
        content=OneOf(options=("fail", "escalate")),
    ),
    "skip_unsafe": Key(
        meaning="Leave out links, pipes and devices found in the outbox instead of failing.",
        content=Flag(),
    ),
    "max_turns": Key(
        meaning=f"The most turns of a session; {TURNS_OF_COMMANDS} if left out for agents of kind command.",
        content=Whole(least=1),
    ),
    "turn_timeout_ms": Key(meaning="The longest that one turn may take.", content=Milliseconds(least=1)),
    "stall_timeout_ms": Key(
        meaning="After how long a silence the agent is taken for stuck; 0 for never.",
        content=Milliseconds(least=0),
    ),
    "limits": Key(
        meaning="The most that one task may use, all its attempts together.",
        content=_limits("limits", "of one task", Limits()),
    ),
    "input_limit_bytes": Key(
        meaning="Inputs larger than this are handed over by reference.", content=Whole(least=0), field="input_limit"
    ),
    "outbox_limit_bytes": Key(
        meaning="The most bytes in its outbox.", content=Whole(least=1), field="outbox_bytes"
    ),
    "outbox_limit_files": Key(
        meaning="The most files in its outbox.", content=Whole(least=1), field="outbox_files"
    ),
}

DEFAULTS = Section(
    name="defaults",
    makes=Task,
    keys={
        **_SHARED,
        "on_failure": Key(
            meaning="The on_failure of all depends_on and wait_for that say nothing themselves.",
            content=ON_FAILURE.content,
            default="block",
        ),
    },
)

TASK = Section(
    name="task",
    makes=Task,
    keys={
        "name": Key(
            meaning="Its name, and that of its folder.",
            content=Name(reserved=(MESSAGES, CONSOLIDATED)),
            required=True,
        ),
        "objective": Key(meaning="What needs to be accomplished, clearly stated.", content=Text(), required=True),
        "inputs": Key(meaning="Files and directories that are copied to its inbox.", content=Many(of=INPUT)),
        "requirements": Key(meaning="What the work has to keep to.", content=Lines()),
        "success_criteria": Key(
            meaning="Measurable outcomes, at least one.", content=Lines(least=1), required=True
        ),
        "outputs": Key(
            meaning="What it owes: at least one file or directory besides summary.md.",
            content=Many(of=OUTPUT, least=1),
            required=True,
        ),
        "depends_on": Key(
            meaning="Tasks that have to be completed first, and what of their outputs is handed on.",
            content=Many(of=DEPENDENCY),
        ),
        "wait_for": Key(
            meaning="Tasks that have to be over first, of which nothing is handed on.", content=Many(of=WAIT)
        ),
        "priority": Key(
            meaning="Of two tasks that could start, the one with the smaller number does; without one, last.",
            content=Whole(least=0),
        ),
        **_SHARED,
    },
)

PLAN = Section(
    name="plan",
    makes=Plan,
    keys={
        "name": Key(meaning="Its name; if left out, that of the file without its ending.", content=Name()),
        "goal": Key(meaning="What the whole plan is for.", content=Text()),
        "workspace": Key(
            meaning="The directory of all that belongs to its run, relative to the plan file; if left out, the "
            "name of the file with .work for its ending.",
            content=SourcePath(),
            field="root",
        ),
        "worklog": Key(
            meaning="A work log, relative to the plan file, in which what tasks come to is recorded too.",
            content=SourcePath(),
        ),
        "mailbox": Key(
            meaning="A mailbox, relative to the plan file, through which the maintainer hears of escalations too.",
            content=SourcePath(),
        ),
        "max_parallel": Key(meaning="How many tasks may run at the same time.", content=Whole(least=1)),
        "budget": Key(
            meaning="The most that all tasks may use together.",
            content=_limits("budget", "of all tasks together", BUDGET),
        ),
        "defaults": Key(meaning="What holds for every task that does not say otherwise.", content=DEFAULTS),
        "tasks": Key(meaning="The tasks, at least one.", content=Many(of=TASK, least=1), required=True),
    },
)
