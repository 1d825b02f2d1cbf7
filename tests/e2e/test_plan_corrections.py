"""Inputs that a person corrects with `sortie plan fix`: which can be, what takes their place, when nothing does."""

from __future__ import annotations

from functools import partial

from .plan_project import PlanProject
from .processes import wait_for

GATE = 'until [ -e "$SORTIE_WORKFLOW_DIR/go" ]; do :; done'


def _began(plan: PlanProject, times: int) -> bool:
    return len(plan.diary()) == times


def test_a_corrected_input_takes_the_place_of_the_one_in_the_plan(plan):
    """BOX-07: fix and retry; the file of the plan stays as it is, the correction for every later attempt."""
    (plan.root / "data.json").write_text("{}")
    (plan.root / "better.csv").write_text("id,name\n")
    check = 'grep -q id inbox/data.csv || exit 1; deliver "$(cat inbox/data.csv)"'
    plan.task("one", check, inputs=[{"path": "data.json", "as": "data.csv"}])
    plan.run(3)
    assert plan.states() == {"one": "failed"}
    plan.sortie("fix", "one", "--input", "better.csv=data.csv")
    plan.run()
    assert (plan.folder("one") / "outbox" / "result.md").read_text() == "id,name\n"
    assert (plan.root / "data.json").read_text() == "{}"
    plan.sortie("retry", "one")
    plan.run()


def test_what_another_task_handed_over_can_be_corrected_too(plan):
    """BOX-07"""
    (plan.root / "better").write_text("right")
    plan.task("a", "deliver wrong")
    plan.task("b", "grep -q right inbox/a/result.md || exit 1; deliver", depends_on=["a"])
    plan.run(3)
    plan.sortie("fix", "b", "--input", "better=a/result.md")
    plan.run()
    assert (plan.folder("a") / "outbox" / "result.md").read_text() == "wrong\n"


def test_a_correction_that_leaves_the_inbox_is_refused(plan):
    plan.task("one", "exit 1")
    plan.run(3)
    (plan.root / "x").touch()
    for name in ("../x", "/etc/passwd", "instructions.md"):
        assert plan.sortie("fix", "one", "--input", f"x={name}", code=None).returncode in (1, 2)
    assert not list(plan.root.parent.glob("x"))


def test_a_correction_of_something_that_the_task_does_not_get_is_refused(plan):
    """BOX-07: nothing of it stays, and the names that there are are told."""
    (plan.root / "data.csv").write_text("x")
    (plan.root / "a=b").write_text("better")
    plan.task("before", "echo 1 > outbox/result.md; deliver")
    plan.task("one", "exit 1", inputs=["data.csv", "agents"], depends_on=["before"])
    plan.task("none", "exit 1")
    plan.run(3)
    for task, name, told in (
        ("one", "dta.csv", 'one has no input dta.csv; did you mean "data.csv"?'),
        ("one", "agents", "one has no input agents"),
        ("one", "before/other.md", "one has no input before/other.md"),
        ("none", "data.csv", "none has no input data.csv. It gets no files."),
    ):
        refused = plan.sortie("fix", task, "--input", f"a=b={name}", code=1)
        assert told in refused.stderr and refused.stderr.count("\n") == 1
    assert not (plan.work / ".fixes").exists()
    for name in ("data.csv", "agents/one.sh", "before/result.md"):
        plan.sortie("fix", "one", "--input", f"a=b={name}")
        assert (plan.work / ".fixes" / "one" / name).read_text() == "better"


def test_a_correction_of_a_task_that_cannot_be_tried_again_is_taken_back(plan):
    """BOX-07: refused is refused: the next run does nothing again for it, and an earlier correction stays."""
    (plan.root / "data").write_text("x")
    (plan.root / "better").write_text("y")
    (plan.root / "best").write_text("z")
    plan.task("slow", f"say begins; {GATE}; deliver", inputs=["data"])
    for number, correction in enumerate(("better", "best")):
        running = plan.start()
        wait_for(partial(_began, plan, number + 1))
        refused = plan.sortie("fix", "slow", "--input", f"{correction}=data", code=1)
        assert "sortie plan stop slow` ends it first" in refused.stderr
        (plan.root / "go").touch()
        assert running.wait(30) == 0
        assert plan.run() and len(plan.diary()) == number + 1
        (plan.root / "go").unlink()
        plan.sortie("fix", "slow", "--input", "better=data")
    fixes = plan.work / ".fixes"
    assert (fixes / "slow" / "data").read_text() == "y"
    assert [path.name for path in fixes.iterdir()] == ["slow"]
