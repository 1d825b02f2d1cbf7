"""Who waits for whom: what is handed over, who runs at the same time, and what a failure does to others."""

from __future__ import annotations

import json

import pytest

# Waits until so many tasks have said that they are here: with fewer at the same time nobody would get on.
TOGETHER = 'say here; until [ "$(grep -c here "$DIARY")" -ge {} ]; do :; done; deliver'


def test_outputs_of_a_dependency_are_in_the_inbox_before_the_start(plan):
    """BOX-08: what was asked for, where it was asked for, and nothing else; with the manifest of the document."""
    plan.task(
        "collect",
        "[ -d attempts ] || { echo half > outbox/half; exit 1; }\n"
        "deliver; mkdir outbox/data; echo 1 > outbox/data/a; echo 2 > outbox/data/b; echo s > outbox/sources.md",
        outputs=["result.md", "data/", "sources.md"],
        retries=1,
    )
    plan.task("check")
    wanted = {"task": "collect", "outputs": ["outbox/data/", "outbox/sources.md"], "copy_to": "inbox/source_data/"}
    plan.task(
        "use",
        "(cd inbox; find . -type f | sort) > workspace/found; deliver",
        depends_on=[wanted],
        wait_for=["check"],
    )
    plan.run()
    inbox = plan.folder("use") / "inbox"
    found = (plan.folder("use") / "workspace" / "found").read_text().split()
    assert found == [
        "./.received.json",
        "./dependencies.json",
        "./instructions.md",
        "./source_data/data/a",
        "./source_data/data/b",
        "./source_data/sources.md",
    ]
    assert json.loads((inbox / "dependencies.json").read_text()) == {
        "depends_on": [
            {
                "agent": "collect",
                "outputs": ["outbox/data/", "outbox/sources.md"],
                "copy_to": "inbox/source_data/",
            }
        ],
        "wait_for": ["collect", "check"],
    }
    received = {entry["file"]: entry for entry in json.loads((inbox / ".received.json").read_text())}
    delivered = {path: sha256 for path, _, sha256 in plan.memo("collect").files}
    assert received.keys() == {"outbox/data/a", "outbox/data/b", "outbox/sources.md"}, "TBX-12"
    assert all(entry["sha256"] == delivered[path] for path, entry in received.items())
    assert {(entry["agent"], entry["attempt"]) for entry in received.values()} == {("collect", 2)}


def test_without_more_words_all_declared_outputs_go_to_a_folder_of_the_dependency(plan):
    """TBX-07: the default of `copy_to`."""
    plan.task("a", "deliver; echo more > outbox/undeclared.md")
    plan.task("b", depends_on=["a"])
    plan.run()
    assert sorted(path.name for path in (plan.folder("b") / "inbox" / "a").iterdir()) == ["result.md", "summary.md"]


def test_independent_tasks_run_at_the_same_time_up_to_the_limit(plan):
    """BOX-09: three of four need each other to get on; a fourth never runs beside them."""
    for name in ("a", "b", "c"):
        plan.task(name, TOGETHER.format(3))
    plan.task("d", "deliver")
    plan.plan(max_parallel=3)
    plan.run()
    assert set(plan.states().values()) == {"completed"}
    most = now = 0
    with_times = sorted(
        (moment, change)
        for row in plan.history()
        for moment, change in ((row.started_at, 1), (row.completed_at, -1))
    )
    for _, change in with_times:
        now += change
        most = max(most, now)
    assert most <= 4  # times are written to the second; the limit itself is the engine's


def test_nothing_starts_before_what_it_waits_for_is_over(plan):
    """BOX-09, TBX-05"""
    for name, waits in {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}.items():
        plan.task(name, "say begins; deliver; say ends", wait_for=waits)
    plan.run()
    diary = plan.diary()
    assert diary[:2] == ["a begins", "a ends"] and diary[-2:] == ["d begins", "d ends"]
    assert diary.index("d begins") > max(diary.index("b ends"), diary.index("c ends"))


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, "a → b → c → a"),
        ({"a": ["a"]}, "a"),
        ({"a": ["nobody"]}, "nobody"),
    ],
)
def test_a_graph_that_cannot_be_run_is_refused_before_anything_is_made(plan, tasks, told):
    """BOX-08, TBX-04"""
    for name, waits in tasks.items():
        plan.task(name, "say begins", wait_for=waits)
    done = plan.sortie("run", code=2)
    assert told in done.stderr, done.stderr
    assert "plan.yaml:" in done.stderr
    assert not plan.work.exists() and plan.diary() == []


@pytest.mark.parametrize(
    "bad",
    [
        {"outputs": ["outbox/../../secret"]},
        {"copy_to": "inbox/../outbox/"},
        {"copy_to": "/etc/"},
        {"outputs": ["outbox/a\\b"]},
        {"copy_to": "inbox/instructions.md"},
    ],
)
def test_paths_cannot_leave_their_folder(plan, bad):
    """BOX-08, TBX-07"""
    plan.task("a")
    plan.task("b", depends_on=[{"task": "a", **bad}])
    plan.sortie("run", code=2)
    assert not plan.work.exists()


def test_a_failure_blocks_only_its_own_branch_and_names_the_root(plan):
    """TBX-05: blocked, with the first cause, not what lies between."""
    plan.task("bad", "exit 4")
    plan.task("next", depends_on=["bad"])
    plan.task("last", depends_on=["next"])
    plan.task("good")
    plan.task("after-good", depends_on=["good"])
    plan.run(3)
    assert plan.states() == {
        "bad": "failed",
        "next": "blocked",
        "last": "blocked",
        "good": "completed",
        "after-good": "completed",
    }
    assert plan.note("last").startswith("bad failed: ") and "exit code 4" in plan.note("last")
    assert "bad" in plan.sortie("why", "last").stdout


@pytest.mark.parametrize(
    ("on_failure", "state"), [("block", "blocked"), ("continue", "completed"), ("fail", "failed")]
)
@pytest.mark.parametrize("edge", ["depends_on", "wait_for"])
def test_each_edge_says_what_a_failure_does(plan, edge, on_failure, state):
    """TBX-05: `block`, `continue` or `fail`."""
    plan.task("bad", "exit 1")
    plan.task(
        "other",
        "say begins; deliver",
        **{edge: [{"task": "bad", "on_failure": on_failure}]},
    )
    plan.task("third", wait_for=["other"])
    plan.run(3)
    states = plan.states()
    assert states["other"] == state
    assert states["third"] == ("completed" if state == "completed" else "blocked")
    assert plan.diary() == (["other begins"] if state == "completed" else [])


def test_what_was_changed_after_its_completion_is_not_handed_over(plan):
    """TBX-12, BOX-08: a sibling spoils the outbox of a task that is completed; a person decides."""
    plan.task("a")
    plan.task("spoil", "echo spoiled > ../a/outbox/result.md; deliver", wait_for=["a"])
    plan.task("b", "say begins; deliver", depends_on=["a"], wait_for=["spoil"])
    plan.run(3)
    assert plan.states() == {"a": "completed", "spoil": "completed", "b": "escalated"}
    assert "What a delivered was changed" in plan.note("b") and plan.diary() == []
    assert plan.note("b").endswith("takes it as it is; then retry this task.") and ".." not in plan.note("b")
    assert "outbox/result.md" in (plan.work / "ESCALATIONS.md").read_text()
    assert "b is tried again" in plan.sortie("retry", "b").stdout
    assert "is completed with 2 files" in plan.sortie("accept", "a").stdout
    plan.run()
    assert (plan.folder("b") / "inbox" / "a" / "result.md").read_text() == "spoiled\n"


def test_two_orchestrators_cannot_start_one_task_twice(plan):
    """TBX-14"""
    plan.task("a", 'say begins; until [ -e "$SORTIE_WORKFLOW_DIR/go" ]; do :; done; deliver')
    first = plan.start()
    plan.until_said("a begins")
    second = plan.sortie("run", code=1)
    assert "pid" in second.stderr
    (plan.root / "go").touch()
    assert first.wait(30) == 0
    assert plan.diary() == ["a begins"]


def test_a_limit_of_the_whole_plan_is_kept_over_all_tasks(plan):
    for name in ("a", "b", "c"):
        plan.task(name)
    plan.plan(budget={"sessions": 2}, max_parallel=1)
    plan.run(3)
    assert sorted(plan.states().values()) == ["completed", "completed", "ready"]
    assert "all of 2 sessions used" in plan.note("c")
    plan.plan(budget={"sessions": 3})
    plan.run()


def test_a_task_has_time_limits_of_its_own(plan):
    plan.task("slow", "say begins; while :; do :; done", turn_timeout_ms=300)
    plan.task("quick")
    plan.run(3)
    assert plan.states() == {"slow": "failed", "quick": "completed"}
    assert "longer than 0.3 s" in plan.note("slow")
    report = (plan.folder("slow") / "outbox" / "error_report.md").read_text()
    assert "longer than 0.3 s" in report, "BOX-06: also for one that we ended ourselves"
