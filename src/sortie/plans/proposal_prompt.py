"""What an agent is told that proposes a plan: the format in fixed words, the agents it may use, its mistakes."""

from __future__ import annotations

from collections.abc import Sequence

from ..workflow.problems import Problem
from .beginning import SCHEMA_LINE
from .markdown import one_line
from .plan import TaskAgent
from .proposal import MOST_TASKS, NAME, as_written
from .skills import TEMPLATES

GOAL = "GOAL.md"
SCHEMA = "plan.schema.json"
FILES = "files.txt"

CORRECT = (
    f"`{NAME}` cannot be used yet. Correct what is wrong, keep what was right, and write the whole file again."
)
MOST_TOLD = 50
_LONGEST = 500

# In the order in which its parts are read; the parts in braces are ours, nothing of the goal is in it.
_PROMPT = f"""\
Propose a plan for the goal in `{GOAL}`: split it into tasks, each for one agent that works alone. Write the plan as
YAML to `{NAME}` in your current directory. Write nothing else, do not work on the goal itself, and start nothing: a
person looks at the plan first.

How a plan runs: each task has a folder of its own. `inbox/` holds its instructions, its inputs, and what the tasks
that it depends on delivered; `outbox/` is what it delivers: the outputs that it declares, and always `summary.md`.
A task starts when all that it waits for is completed. Tasks that do not wait for each other run at the same time.
Agents share nothing else: what one has to know must be in its objective, in its inputs, or in outputs of others.

```yaml
{SCHEMA_LINE}
name: faster-startup          # small letters, digits and hyphens
goal: |
  What all of this is for, in a paragraph. Every agent reads it.
defaults:
  agent: @AGENT@
tasks:
  - name: research            # as for the plan
    skill: research           # {", ".join(TEMPLATES)}; or {{text: "..."}}
    objective: |
      What this task has to accomplish, complete and clear for somebody who knows nothing but this.
    success_criteria:         # at least one, each measurable
      - Every step of the start is listed with its time
    outputs:                  # at least one: a file, or with a slash at the end a directory of files
      - {{path: findings.md, description: What takes how long and why}}
  - name: improve
    skill: code
    objective: |
      Make the two slowest steps of inbox/research/findings.md faster.
    depends_on:               # waits for it; its outputs are copied to inbox/research/
      - research
    success_criteria:
      - Each change is measured before and after
    outputs: [changes.patch, measurements.md]
  - name: review
    skill: review
    objective: |
      Check changes.patch against measurements.md: is every claim shown?
    depends_on:               # only these of its outputs, to this directory
      - {{task: improve, outputs: [changes.patch, measurements.md], copy_to: inbox/work/}}
    wait_for: [research]      # has to be over first, hands nothing on
    success_criteria:
      - Each change is accepted or refused, with a reason
    outputs: [feedback.md]
```

Further keys of a task, all optional: `context`, `requirements` and `constraints` (lists of texts), `inputs` (files
or directories, each a path or `{{path: ..., as: ..., description: ...}}`), `retries`, `when_failed: escalate` (a
person is asked after the last retry), `priority`. An edge may say `on_failure: block`, `continue` or `fail`.
`{SCHEMA}` has everything.

Rules:
- The agent of every task is exactly @AGENTS@. No other agent, and no other setting of one.
- Inputs are files of the person, by the paths that `{FILES}` lists, or directories of these. Nothing else can be an
  input, nor be named by `skill: {{file: ...}}`.
- No `budget` and no `workspace`: these are the person's. At most {MOST_TASKS} tasks; few large ones are better than
  many small ones.
- No tasks wait for each other in a circle. Whoever needs a file depends on the task that makes it.
- Leave no placeholder such as `{{NAME}}` in any text.
"""


def proposal_prompt(agents: Sequence[TaskAgent]) -> str:
    written = [_inline(agent) for agent in agents]
    choice = " or ".join(f"`{one}`" for one in written)
    return _PROMPT.replace("@AGENTS@", choice).replace("@AGENT@", written[0])


def mistakes(problems: Sequence[Problem]) -> str:
    """For the agent, each on a line of its own."""
    told = [f"- {one_line(_place(problem) + problem.message)[:_LONGEST]}" for problem in problems[:MOST_TOLD]]
    more = len(problems) - MOST_TOLD
    return "\n".join([*told, *([f"... and {more} more"] if more > 0 else [])])


def _place(problem: Problem) -> str:
    line = f"line {problem.line}: " if problem.line else ""
    return line + (f"{problem.key}: " if problem.key else "")


def _inline(agent: TaskAgent) -> str:
    import yaml

    text: str = yaml.safe_dump(
        as_written(agent), default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True
    )
    return text.strip()
