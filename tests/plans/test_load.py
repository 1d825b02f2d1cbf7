"""A plan file becomes a `Plan` with all defaults filled in, or every mistake in it is told, with its line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sortie.core.model import Limits
from sortie.errors import ConfigurationError
from sortie.plans.load import LARGEST_FILE, examine, load_plan
from sortie.plans.plan import Dependency, Task, TaskInput, TaskOutput, WaitFor
from sortie.plans.skills import template, whole

from .sample import FULL, furnish, load_tasks, problems_of, problems_of_tasks, write


@pytest.fixture
def folder(tmp_path):
    furnish(tmp_path)
    return tmp_path


@pytest.fixture
def full(folder):
    return load_plan(write(folder, FULL))


def test_every_key_of_a_plan_arrives(full, folder):
    assert (full.name, full.goal, full.max_parallel) == ("release-notes", "Notes that users understand.", 2)
    assert (full.path, full.root) == (folder / "plan.yaml", folder / "run")
    assert full.budget == Limits(sessions=50, turns=None, tokens=None, usd=2.5)
    assert [task.name for task in full.tasks] == ["collect", "check", "write"]


def test_every_key_of_a_task_arrives(full, folder):
    """BOX-03, BOX-04, BOX-05, BOX-08"""
    collect, check, write_ = full.tasks
    assert collect.inputs == (
        TaskInput(path=str(folder / "data/source.csv"), name="source.csv"),
        TaskInput(path=str(folder / "data"), name="all/data", description="Everything", by_reference=True),
    )
    assert collect.outputs == (
        TaskOutput(path="outbox/findings.md", description="What changed."),
        TaskOutput(path="outbox/data/"),
    )
    assert (collect.objective, collect.context) == ("Find out what changed.", "There are many changes.")
    assert (collect.requirements, collect.success_criteria) == (
        ("Be complete", "Be right"),
        ("Every change is listed",),
    )
    assert (collect.line, check.line) == (14, 27)
    assert check.depends_on == (
        Dependency(
            task="collect", outputs=("outbox/data/x.json", "outbox/summary.md"), copy_to="inbox/source_data/"
        ),
    )
    assert write_.wait_for == (
        WaitFor(task="check", on_failure="continue"),
        WaitFor(task="collect", on_failure="fail"),
    )
    assert (write_.retries, write_.retry_delay, write_.when_failed, write_.skip_unsafe) == (
        0,
        1.5,
        "escalate",
        True,
    )
    assert (write_.turn_timeout, write_.stall_timeout, write_.priority) == (1.0, 0.0, 8)
    assert (write_.input_limit, write_.outbox_bytes, write_.outbox_files) == (5, 6, 7)


def test_what_a_dependency_leaves_out_is_all_that_is_declared_in_a_place_of_its_own(full):
    """BOX-08, TBX-07"""
    assert full.by_name["write"].depends_on == (
        Dependency(
            task="collect",
            outputs=("outbox/findings.md", "outbox/data/", "outbox/summary.md"),
            copy_to="inbox/collect/",
            on_failure="continue",
        ),
    )


def test_an_empty_list_of_outputs_is_the_same_as_none(folder):
    plan = load_tasks(folder, {}, {"name": "two", "depends_on": [{"task": "one", "outputs": []}]})
    assert plan.by_name["two"].depends_on[0].outputs == ("outbox/result.md", "outbox/summary.md")


def test_the_skill_becomes_the_whole_of_skill_md(full):
    """BOX-01"""
    assert full.by_name["collect"].skill == whole(template("research"))
    assert full.by_name["check"].skill == whole("You check.")
    assert full.by_name["write"].skill == whole("# Skill: own\n\nYou write.\n")


def test_defaults_hold_where_a_task_says_nothing(full):
    collect, check, write_ = full.tasks
    assert [task.retries for task in full.tasks] == [1, 1, 0]
    assert (collect.agent.kind, collect.agent.command, collect.agent.env) == ("command", "./agent.sh", ("PATH",))
    assert collect.constraints == ("No network", "One hour")
    assert check.constraints == ("No network",)
    assert collect.limits == Limits(sessions=3, usd=1.0)
    assert write_.limits == Limits(sessions=None, usd=1.0)


def test_an_agent_of_another_kind_takes_nothing_of_the_usual_one(full):
    assert (full.by_name["check"].agent.command, full.by_name["check"].agent.env) == ("", ())


def test_an_agent_of_the_same_kind_differs_in_what_it_says(folder):
    agent = {"kind": "claude-code", "model": "small", "env": ["HOME"]}
    tasks = ({"agent": {"model": "large"}}, {"name": "two", "agent": {"kind": "claude-code"}})
    plan = load_tasks(folder, *tasks, defaults={"agent": agent})
    assert [(task.agent.model, task.agent.env) for task in plan.tasks] == [
        ("large", ("HOME",)),
        ("small", ("HOME",)),
    ]


def test_a_command_has_one_turn_unless_somebody_says_otherwise(full, folder):
    assert [task.max_turns for task in full.tasks] == [1, 3, 1]
    assert load_tasks(folder, {}).tasks[0].max_turns == 10
    command = {"agent": {"kind": "command"}}
    assert load_tasks(folder, command, defaults={"max_turns": 5}).tasks[0].max_turns == 5


def test_what_is_left_out_has_the_defaults_of_a_task(folder):
    (task,) = load_tasks(folder, {}).tasks
    usual = Task(name="x", objective="y")
    for field in (
        "retries",
        "retry_delay",
        "when_failed",
        "max_turns",
        "turn_timeout",
        "input_limit",
        "outbox_files",
    ):
        assert getattr(task, field) == getattr(usual, field)


def test_name_and_workspace_come_from_the_file(tmp_path):
    path = tmp_path / "my-plan.yaml"
    path.write_text("tasks: [{name: a, objective: b, success_criteria: [c], outputs: [d], agent: {kind: mock}}]")
    plan = load_plan(path)
    assert (plan.name, plan.root) == ("my-plan", tmp_path / "my-plan.work")
    assert plan.budget == Limits(sessions=200, turns=2000, tokens=200_000_000, usd=200.0)
    odd = path.rename(tmp_path / "My plan.yaml")
    (problem,) = examine(odd)[1]
    assert (problem.key, problem.message) == (
        "name",
        "is missing: the name of the file, 'My plan', does not fit; add one",
    )


def test_a_relative_plan_has_absolute_paths(folder, monkeypatch):
    write(folder, FULL)
    monkeypatch.chdir(folder)
    plan = load_plan(Path("plan.yaml"))
    assert plan.root == folder / "run"
    assert plan.tasks[0].inputs[0].path == str(folder / "data/source.csv")


def test_all_mistakes_are_told_at_once_each_with_its_line(folder):
    path = write(
        folder,
        """\
name: Big
goal: 3
max_paralel: 2
budget: {sessions: -1}
defaults: {retries: no, agent: {kind: comand}}
tasks:
  - name: messages
    objective: ""
    outputs: []
  - name: two
    objective: x
    success_criteria: [a, 3]
    outputs: [../x, {pth: y}]
    depends_on: [{task: one, on_failure: stop}]
    inputs: nothing
    retry_delay_ms: 1.5
  - just text
  - name: three
    name: four
""",
    )
    assert problems_of(path) == [
        'plan.yaml:1: name: must be 1 to 64 small letters, digits and hyphens, and begin with no hyphen, not "Big"',
        "plan.yaml:2: goal: must be text (put it in quotes), not 3",
        'plan.yaml:3: max_paralel: there is no such key of a plan; did you mean "max_parallel"?',
        'plan.yaml:4: budget.sessions: must be a whole number of at least 1, or "unlimited", not -1',
        "plan.yaml:5: defaults.retries: must be a whole number of at least 0, not false",
        'plan.yaml:5: defaults.agent.kind: there is no agent "comand" here; did you mean "command"?',
        'plan.yaml:7: tasks.messages.name: must be another name: this one is reserved, not "messages"',
        "plan.yaml:7: tasks.messages.success_criteria: is missing: measurable outcomes, at least one",
        'plan.yaml:8: tasks.messages.objective: must be text that says something, not ""',
        "plan.yaml:9: tasks.messages.outputs: must have at least one entry",
        "plan.yaml:12: tasks.two.success_criteria: must be a list of texts (put 3 in quotes)",
        'plan.yaml:13: tasks.two.outputs.0: must be a path below outbox/, without "..", not "../x"',
        'plan.yaml:13: tasks.two.outputs.1.pth: there is no such key of an output; did you mean "path"?',
        "plan.yaml:13: tasks.two.outputs.1.path: is missing: a file below outbox/, or with a slash at the end a "
        "directory of at least one file",
        'plan.yaml:14: tasks.two.depends_on.0.on_failure: must be block, continue or fail, not "stop"',
        'plan.yaml:14: tasks.two.depends_on.0: there is no task "one"',
        'plan.yaml:15: tasks.two.inputs: must be a list, not "nothing"',
        "plan.yaml:16: tasks.two.retry_delay_ms: must be a whole number of at least 0, not 1.5",
        'plan.yaml:17: tasks.2: must be a map, not "just text"',
        "plan.yaml:18: tasks.three.objective: is missing: what needs to be accomplished, clearly stated",
        "plan.yaml:18: tasks.three.success_criteria: is missing: measurable outcomes, at least one",
        "plan.yaml:18: tasks.three.outputs: is missing: what it owes: at least one file or directory besides "
        "summary.md",
        "plan.yaml:19: tasks.3.name: is given twice, first on line 18",
    ]
    with pytest.raises(ConfigurationError) as caught:
        load_plan(path)
    assert len(caught.value.problems) == 23
    assert str(caught.value).startswith(f"{path} has 23 problems; the first is: {path}:1: name")


def test_settings_are_checked_by_the_agent_itself_where_they_are_written(folder):
    path = write(
        folder,
        """\
name: sample
defaults:
  agent:
    kind: claude-code
    options: {permission: x}
tasks:
  - {name: a, objective: b, success_criteria: [c], outputs: [d]}
  - {name: e, objective: b, success_criteria: [c], outputs: [d]}
  - name: f
    objective: b
    success_criteria: [c]
    outputs: [d]
    agent:
      kind: command
      model: large
      options:
        quick: true
""",
    )
    assert [problem.split(": The")[0] for problem in problems_of(path)] == [
        "plan.yaml:5: defaults.agent.options.permission",
        "plan.yaml:15: tasks.f.agent.model",
        "plan.yaml:17: tasks.f.agent.options.quick",
    ]


def test_a_skill_that_cannot_be_had_is_refused(folder):
    (folder / "empty.md").write_text(" \n")
    (folder / "binary.md").write_bytes(b"\xff\xfe")
    (folder / "template.md").write_text("# {SKILL_NAME}\n")
    os.mkfifo(folder / "fifo.md")
    skills = ({"file": name} for name in ("none.md", "empty.md", "binary.md", "template.md", "fifo.md"))
    others: tuple[Any, ...] = (
        {"text": "For {task_id}"},
        "reserch",
        {"file": "skills/own.md", "text": "x"},
        {},
        None,
    )
    tasks = [{"name": f"t{number}", "skill": skill} for number, skill in enumerate((*skills, *others))]
    assert problems_of_tasks(folder, *tasks) == [
        "tasks.t0.skill: none.md cannot be used: there is no such file",
        "tasks.t1.skill: empty.md cannot be used: it is empty",
        "tasks.t2.skill: binary.md cannot be used: this is not UTF-8 text; save the file as UTF-8",
        "tasks.t3.skill: template.md cannot be used: it still holds the placeholder {SKILL_NAME}",
        "tasks.t4.skill: fifo.md cannot be used: this is not a regular file",
        "tasks.t5.skill: still holds the placeholder {task_id}",
        'tasks.t6.skill: must be research, code, analysis, writer, review or integration, not "reserch"',
        "tasks.t7.skill: must have exactly one of template, file or text",
        "tasks.t8.skill: must have exactly one of template, file or text",
        "tasks.t9.skill: must be text or a map with template, file or text, not nothing",
    ]


def test_sections_that_need_no_key_may_be_empty(folder):
    path = write(folder, "name: a\nbudget:\ndefaults:\ntasks:\n- {name: a, objective: b, success_criteria: [c], "
                 "outputs: [d], agent: {kind: mock}, limits: }\n")  # fmt: skip
    assert problems_of(path) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "1: tasks: is missing: the tasks, at least one"),
        (b"- a\n", '1: the plan must be a map of keys and values such as "tasks:"'),
        (b"name: a\nx: [\n", "2: not valid YAML"),
        (b"name: a\nx: \xff\n", "2: this is not UTF-8 text"),
        (b"name: a\ntasks: []\n", "2: tasks: must have at least one entry"),
        (b"name: a\ntasks: {}\n", "2: tasks: must be a list, not a map"),
        (b"name: a\ntasks: [null]\n", "2: tasks.0: must be a map, not nothing"),
        (b"name: a\ntasks: &a [*a]\n", "1: too many values are in the plan, or one that refers to itself"),
        (b"name: a\nx: " + b"[" * 60 + b"]" * 60, "1: values in the plan are nested too deeply"),
        (b'name: "a\\0"\ntasks: []\n', "1: name: contains a NUL character"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_line(tmp_path, content, said):
    path = tmp_path / "plan.yaml"
    path.write_bytes(content)
    plan, problems = examine(path)
    assert plan is None
    assert any(str(problem).startswith(f"{path}:{said}") for problem in problems), problems


def test_a_file_that_grows_without_bound_is_refused(tmp_path):
    lists = "".join(f"x{level}: &x{level} [{', '.join([f'*x{level - 1}'] * 30)}]\n" for level in range(1, 9))
    (problem,) = problems_of(write(tmp_path, f"x0: &x0 [a]\n{lists}"))
    assert problem == "plan.yaml:1: too many values are in the plan, or one that refers to itself"


def test_pipes_directories_links_and_huge_files(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", LARGEST_FILE + 1)
    for path, said in {
        tmp_path: "not a regular file",
        tmp_path / "fifo": "not a regular file",
        tmp_path / "none": "no such file",
        tmp_path / "loop": "cannot be read",
        tmp_path / "huge": "larger than 16 MiB",
        tmp_path / "nul\0": "not a possible file name",
    }.items():
        plan, problems = examine(path)
        assert plan is None
        assert said in problems[0].message


def test_a_plan_of_ten_thousand_tasks_loads(tmp_path):
    line = "- {name: t-%d, objective: b, success_criteria: [c], outputs: [d], agent: {kind: mock}%s}\n"
    tasks = "".join(
        line % (n, f", depends_on: [t-{n - 1}], wait_for: [t-{n // 2}]" if n else "") for n in range(10_000)
    )
    plan = load_plan(write(tmp_path, f"name: big\ntasks:\n{tasks}"))
    assert len(plan.tasks) == 10_000
    assert plan.tasks[-1].line == 10_002


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(folder):
    """TBX-19"""
    path = folder / "plan.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    assert [task.line for task in load_plan(path).tasks] == [14, 27, 36]


def test_a_work_log_and_a_mailbox_stand_beside_the_plan(folder):
    """LOG-14"""
    told = load_plan(write(folder, FULL + "worklog: WORKLOG.md\nmailbox: ../MAILBOX.md\n"))
    assert (told.worklog, told.mailbox) == (folder / "WORKLOG.md", folder / "../MAILBOX.md")
    assert not (folder / "WORKLOG.md").exists()
    assert (plain := load_plan(write(folder, FULL))).worklog is None
    assert plain.mailbox is None


def test_a_work_log_and_a_mailbox_that_cannot_be_used_are_refused(folder):
    """LOG-14"""
    (folder / "link.md").symlink_to("data")
    keys = "worklog: data\nmailbox: link.md\n"
    line = FULL.count("\n") + 1
    assert problems_of(write(folder, FULL + keys)) == [
        f"plan.yaml:{line}: worklog: {folder}/data is a directory; name a file in it",
        f"plan.yaml:{line + 1}: mailbox: {folder}/link.md is a link; name the file that it leads to",
    ]
    assert problems_of(write(folder, FULL + "worklog: plan.yaml\nmailbox: plan.yaml\n")) == [
        f"plan.yaml:{line}: worklog: is the plan itself; name another file",
        f"plan.yaml:{line + 1}: mailbox: is the plan itself; name another file",
        f"plan.yaml:{line + 1}: mailbox: is the work log; name a file of its own",
    ]
