"""How far a plan is: who may start, who fails with whom, what a change touches; for any graph and any order."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sortie.plans.graph import order
from sortie.plans.plan import Dependency, OnFailure, Plan, Task, TaskOutput, WaitFor
from sortie.plans.progress import COMPLETED, FAILED, NAMED, PENDING, SKIPPED, Memo, Progress

POLICIES: tuple[OnFailure, ...] = ("block", "continue", "fail")


def task(name: str, *waits: WaitFor | Dependency, objective: str = "Do it.") -> Task:
    return Task(
        name=name,
        objective=objective,
        outputs=(TaskOutput(path="outbox/a.md"),),
        depends_on=tuple(one for one in waits if isinstance(one, Dependency)),
        wait_for=tuple(one for one in waits if isinstance(one, WaitFor)),
    )


def plan_of(*tasks: Task) -> Plan:
    return Plan(name="p", path=Path("p.yaml"), root=Path("p.work"), tasks=tasks)


def after(name: str, on_failure: OnFailure = "block") -> Dependency:
    return Dependency(task=name, outputs=("outbox/a.md",), copy_to=f"inbox/{name}/", on_failure=on_failure)


def only_after(name: str, on_failure: OnFailure) -> WaitFor:
    return WaitFor(task=name, on_failure=on_failure)


def done(progress: Progress, name: str, content: str = "x") -> Memo:
    made_by = progress.made_by(progress.plan.by_name[name])
    return Memo(made_by=made_by, files=(("outbox/a.md", len(content), content),))


def complete(progress: Progress, name: str, content: str = "x") -> list[str]:
    return progress.put(name, COMPLETED, done(progress, name, content))


def order_of(plan: Plan) -> list[str]:
    return order({one.name: one.waits_for for one in plan.tasks})


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(1, 9))
    tasks = []
    for n in range(count):
        others = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=4)) if n else []
        waits: list[WaitFor | Dependency] = []
        for one in others:
            policy = draw(st.sampled_from(POLICIES))
            waits.append(after(f"t{one}", policy) if draw(st.booleans()) else only_after(f"t{one}", policy))
        tasks.append(task(f"t{n}", *waits))
    return plan_of(*draw(st.permutations(tasks)))


def blockers_by_definition(progress: Progress, name: str) -> list[str]:
    found = []
    for other, on_failure in progress.plan.by_name[name].waits_for.items():
        state = progress.states[other]
        if state != COMPLETED and not (on_failure == "continue" and state in (FAILED, SKIPPED)):
            found.append(other)
    return found[:NAMED]


@given(
    plans(),
    st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from([PENDING, COMPLETED, FAILED, SKIPPED]), st.sampled_from("xyz"))
    ),
)
def test_what_is_kept_step_by_step_is_what_a_fresh_look_finds(plan, steps):
    """BOX-08, TBX-05: for every graph and every order of verdicts, retries and skips."""
    progress = Progress(plan)
    for number, state, content in steps:
        name = plan.tasks[number % len(plan.tasks)].name
        if progress.cause_of_failure(name) or (state != PENDING and progress.blockers(name)):
            continue  # only what may start comes to an end, or is tried again
        before = {one: (progress.states[one], progress.blockers(one)) for one in progress.states}
        memo = done(progress, name, content) if state == COMPLETED else Memo()
        told = progress.put(name, state, memo)
        for one in progress.states:
            now = (progress.states[one], progress.blockers(one))
            assert list(progress.blockers(one)) == blockers_by_definition(progress, one)
            assert one == name or one in told or now == before[one], "whoever is different is told"
        for one in plan.tasks:
            fails = any(
                policy == "fail" and progress.states[other] in (FAILED, SKIPPED)
                for other, policy in one.waits_for.items()
            )
            assert not (fails and progress.states[one.name] == PENDING)
            assert not progress.is_outdated(one.name), "what is outdated is open again at once"


@given(plans(), st.data())
def test_a_restart_finds_what_was_left(plan, data):
    """BOX-12: the same states and blockers from what the store remembers, and nothing to do again."""
    progress = Progress(plan)
    for name in order_of(plan):
        if not progress.blockers(name) and progress.states[name] == PENDING:
            state = data.draw(st.sampled_from([PENDING, COMPLETED, FAILED, SKIPPED]))
            memo = done(progress, name) if state == COMPLETED else Memo()
            progress.put(name, state, memo)
    fresh = Progress(plan)
    remembered = {name: (state, progress.memos[name].encode()) for name, state in progress.states.items()}
    assert fresh.take_over(remembered, order_of(plan)) == {}
    assert fresh.states == progress.states and fresh.memos == progress.memos
    assert all(fresh.blockers(name) == progress.blockers(name) for name in fresh.states)


def test_a_changed_definition_opens_its_task_and_later_ones_only_if_they_get_something_else():
    """BOX-12"""
    first = plan_of(task("a"), task("b", after("a")), task("c", after("b")))
    progress = Progress(first)
    for name in "abc":
        complete(progress, name)
    remembered = {name: (state, progress.memos[name].encode()) for name, state in progress.states.items()}
    changed = replace(first, tasks=(task("a", objective="Other."), *first.tasks[1:]))
    fresh = Progress(changed)
    assert list(fresh.take_over(remembered, order_of(changed))) == ["a"]
    assert fresh.states == {"a": PENDING, "b": COMPLETED, "c": COMPLETED}
    assert complete(fresh, "a", "x") == ["b"], "it waits for nothing any more"
    assert fresh.states["b"] == COMPLETED, "it gets the same as before"
    fresh.put("a", PENDING, Memo())
    complete(fresh, "a", "y")
    assert fresh.states == {"a": COMPLETED, "b": PENDING, "c": COMPLETED}


def test_a_task_that_failed_with_another_is_open_again_when_that_one_is():
    progress = Progress(plan_of(task("a"), task("b", after("a", "fail")), task("c", after("b", "fail"))))
    progress.put("a", FAILED, Memo())
    assert progress.states == {"a": FAILED, "b": FAILED, "c": FAILED}
    assert "a failed" in progress.memos["b"].why and "b failed" in progress.memos["c"].why
    progress.put("a", PENDING, Memo())
    assert progress.states == {"a": PENDING, "b": PENDING, "c": PENDING}


def test_of_many_that_are_waited_for_a_few_are_named_and_each_end_costs_the_same():
    """Nothing is told that nobody would see: the end of one that is not named changes nothing."""
    many = [task(f"t{n}") for n in range(100)]
    progress = Progress(plan_of(*many, task("last", *(after(one.name) for one in many))))
    assert len(progress.blockers("last")) == NAMED
    assert complete(progress, "t50") == []
    assert complete(progress, "t0") == ["last"]
    told = [complete(progress, f"t{n}") for n in range(1, 100) if n != 50]
    assert progress.blockers("last") == () and told[-1] == ["last"]


def test_only_what_was_asked_for_is_handed_over():
    """BOX-08"""
    wanted = Dependency(task="a", outputs=("outbox/data/", "outbox/x.md"), copy_to="inbox/in/")
    progress = Progress(plan_of(task("a"), task("b", wanted)))
    files = tuple((f"outbox/{name}", 1, "h") for name in ("data/1", "data/sub/2", "database", "x.md", "y.md"))
    progress.put("a", COMPLETED, Memo(files=files))
    handed = [(file.path, file.here) for file in progress.handed(wanted)]
    assert handed == [
        ("outbox/data/1", "inbox/in/data/1"),
        ("outbox/data/sub/2", "inbox/in/data/sub/2"),
        ("outbox/x.md", "inbox/in/x.md"),
    ]
    progress.put("a", FAILED, Memo())
    assert progress.handed(wanted) == []
