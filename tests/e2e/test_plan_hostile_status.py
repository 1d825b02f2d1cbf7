"""BOX-02, TBX-01, TBX-02, TBX-03, TBX-17: whatever an agent writes as `status.json`, its task has a defined end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .hostile_plan import DELIVER, HostilePlan


class Odd(NamedTuple):
    """What the agent does, after which the task is in a state for a reason, with something remarkable about it."""

    script: str
    state: str
    reason: str = ""
    finding: str = ""


def says(**status: object) -> str:
    return f"printf '%s' '{json.dumps(status)}' > status.json"


def unreadable(script: str, why: str) -> Odd:
    """All that is owed is there, but nobody understands the last word of the agent: it did not say it was done."""
    reason = f"its agent ended without a final state: status.json cannot be read: {why}"
    return Odd(script, "failed", reason, why)


ODD = {
    "none-at-all": Odd("rm status.json", "completed"),
    "with-bom-and-crlf": Odd(r"""printf '\357\273\277{\r\n"state": "completed"}\r\n' > status.json""", "completed"),
    "empty": unreadable("> status.json", "It is empty"),
    "half-written": unreadable("""printf '{"state": "comple' > status.json""", "It is not JSON"),
    "binary": unreadable("head -c 4096 /dev/urandom > status.json; printf '\\377' >> status.json", ""),
    "of-100-mb": unreadable("truncate -s 100M status.json", "It is larger than 64 KiB"),
    "of-a-terabyte": unreadable("truncate -s 1T status.json", "It is larger than 64 KiB"),
    "a-link": unreadable('ln -sf "$ROOT/outside/secret.txt" status.json', "Symbolic link refused"),
    "a-link-to-passwd": unreadable("ln -sf /etc/passwd status.json", "Symbolic link refused"),
    "a-hard-link": unreadable('ln -f "$ROOT/outside/secret.txt" status.json', "Hard link refused"),
    "a-fifo": unreadable("rm status.json; mkfifo status.json", "Not a regular file but a FIFO"),
    "a-directory": unreadable(
        "rm status.json; mkdir status.json; touch status.json/x", "Not a regular file but a directory"
    ),
    "a-list": unreadable("echo '[]' > status.json", "It must be an object"),
    "state-of-a-wrong-type": unreadable("""echo '{"state": 5}' > status.json""", "`state`"),
    "no-state": unreadable("echo '{}' > status.json", "`state`"),
    "unknown-state": unreadable(says(state="done"), "`state`"),
    "error-of-a-wrong-type": unreadable(says(state="failed", error="boom"), "`error`"),
    "progress-of-a-wrong-type": unreadable(says(state="completed", progress=[1]), "`progress`"),
    "deeply-nested": unreadable(
        "{ printf '{\"state\": \"completed\", \"x\": '; printf '%60000s' '' | tr ' ' '['; } > status.json", ""
    ),
    "nan": Odd(
        """echo '{"state": "completed", "metrics": {"a": NaN, "b": -Infinity, "c": 1e999}}' > status.json""",
        "completed",
        finding="`metrics.a` is not a finite number",
    ),
    "huge-numbers": Odd(
        f"""echo '{{"state": "completed", "seq": 1{"0" * 4000}, "attempt": 1}}' > status.json""",
        "completed",
        finding="`",
    ),
    "negative-numbers": Odd(says(state="completed", progress={"total_steps": -3}), "completed", finding="`"),
    "more-steps-than-there-are": Odd(
        says(state="completed", progress={"steps_completed": 9, "total_steps": 3}), "completed", finding="steps"
    ),
    "from-the-future": Odd(
        says(state="completed", started="2999-01-01T00:00:00Z"), "completed", finding="`started` is in the future"
    ),
    "ended-before-it-started": Odd(
        says(state="completed", started="2040-01-02T00:00:00Z", completed="2040-01-01T00:00:00Z", attempt=1),
        "completed",
        finding="`completed` is before `started`",
    ),
    "of-another-attempt": Odd(
        says(state="failed", attempt=7), "completed", finding="of attempt 7, this is attempt 1; pending stands"
    ),
    "of-a-late-writer": Odd(
        says(state="failed", started="2001-01-01T00:00:00Z"), "completed", finding="from before this attempt began"
    ),
    "never-running": Odd(says(state="completed"), "completed", finding="without running"),
    "running-at-the-end": Odd(
        says(state="running"), "failed", "its agent ended without a final state: status.json says running"
    ),
    "backwards": Odd(
        f"if ! [ -e workspace/turn ]; then touch workspace/turn; {says(state='running')}; exit 0; fi\n"
        f"{says(state='pending')}",
        "failed",
        "its agent ended without a final state: status.json says running",
        "status.json went back from running to pending; running stands",
    ),
    "completed-without-outputs": Odd(
        f"rm -r outbox/*; {says(state='completed')}",
        "incomplete",
        "it is completed, says its agent, but outbox/summary.md is missing; outbox/data.txt is missing",
    ),
    "failed-in-many-lines": Odd(
        says(state="failed", error={"type": "# A\n## B", "message": "one\n## Two\x1b[31m", "details": {"x": [1]}}),
        "failed",
        "# A ## B: one ## Two",
    ),
}


@pytest.fixture(scope="module")
def plan_of_all(tmp_path_factory) -> Iterator[HostilePlan]:
    """One plan with a task for each, and one beside them that behaves."""
    plan = HostilePlan(tmp_path_factory.mktemp("hostile") / "plan")
    plan.task("good")
    for name, odd in ODD.items():
        plan.task(name, f"{DELIVER}\n{odd.script}", max_turns=2 if name == "backwards" else 1)
    assert plan.run() == 3
    yield plan
    plan.clean_up()


@pytest.mark.parametrize("name", ODD)
def test_an_odd_status_has_a_defined_end(plan_of_all, name):
    odd = ODD[name]
    standing = plan_of_all.standing(name)
    assert standing.state == odd.state, standing
    assert odd.reason in standing.note
    assert "\n" not in standing.note and "\x1b" not in standing.note
    assert odd.finding in plan_of_all.findings(name)


@pytest.mark.parametrize("name", ODD)
def test_what_is_written_about_it_can_be_read_by_everybody(plan_of_all, name):
    """BOX-06: whoever failed has a report; whoever said nothing of use gets a last word on its behalf."""
    folder = plan_of_all.folder(name)
    if ODD[name].state == "completed":
        assert json.loads((folder / "status.json").read_text("utf-8-sig"))["state"] == "completed"
    else:
        report = (folder / "outbox" / "error_report.md").read_text()
        assert [line for line in report.splitlines() if line.startswith("#")] == [
            "# Error Report",
            "## Error Type",
            "## Description",
            "## Attempted Recovery",
            "## Suggested Resolution",
            "## Partial Work",
        ]


def test_the_others_are_as_if_nothing_had_been(plan_of_all):
    assert plan_of_all.standing("good").state == "completed"
    assert plan_of_all.findings("good") == ""


def test_nothing_outside_was_read_or_changed(plan_of_all):
    assert plan_of_all.secret.read_text() == "nobody is to read this"
    assert b"nobody is to read this" not in plan_of_all.everything_we_wrote()
    assert b"root:" not in plan_of_all.everything_we_wrote()


def test_every_command_that_looks_at_it_answers(plan_of_all):
    for command in ("status", "graph"):
        answer = plan_of_all.sortie("plan", command, "plan.yaml")
        assert answer.returncode == 0, answer.stderr
    for name in ("a-link", "failed-in-many-lines"):
        answer = plan_of_all.sortie("plan", "why", name)
        assert answer.returncode == 0, answer.stderr
        assert "\x1b" not in answer.stdout


def test_a_status_that_is_being_written_is_waited_for(hostile):
    """TBX-02: half a file is not the last word, as long as whoever writes it is quick."""
    slow = """printf '{"state": ' > status.json; (sleep 0.02; printf '"completed"}' >> status.json) & wait"""
    hostile.task("slow", f"{DELIVER}\n{slow}")
    assert hostile.run() == 0
