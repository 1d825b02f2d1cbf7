"""A plan with two real agent programs: one researches, one writes from what the first delivered."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sortie.plans.prompts import TASK_PROMPT
from sortie.store.connect import connect_readonly
from sortie.store.queries import tool_calls
from tests import npm
from tests.e2e.processes import is_alive, wait_for

from .network import LoopbackWorld
from .plan_scene import PlanScene, gate
from .scene import KEY, PATIENCE

pytestmark = npm.TIME_TO_INSTALL

Steps = list[dict[str, Any]]

USAGE = {"usage": {"input": 1000, "output": 50}}
TOKEN = "token-[0-9a-f]{32}"
FIRST_LINE = TASK_PROMPT.partition("\n")[0]


NOW = "date -u +%Y-%m-%dT%H:%M:%SZ"
RUNNING = f"""begun=$({NOW}); echo "$begun" > workspace/begun
printf '{{"state": "running", "started": "%s"}}' "$begun" > status.new; mv status.new status.json"""
COMPLETED = f"""printf '{{"state": "completed", "started": "%s", "completed": "%s"}}' \
"$(cat workspace/begun)" "$({NOW})" > status.new; mv status.new status.json"""
SUMMARY = "printf '# Summary\\n- [x] done\\n' > outbox/summary.md"

RESEARCH: Steps = [
    {"shell": f"{RUNNING}; cat SKILL.md inbox/instructions.md inbox/question.md"},
    {"shell": f"echo 'The answer is @TAKEN@.' > outbox/findings.md; {SUMMARY}", "take": TOKEN},
    {"mcp": "message_send", "args": {"to": "write", "type": "data_ready", "content": {"note": "mind-the-gap"}}},
    {"shell": COMPLETED},
    {"text": "Found out."},
]
WRITE: Steps = [
    {"shell": f"{RUNNING}; cat SKILL.md inbox/instructions.md inbox/dependencies.json"},
    {"mcp": "message_list", "args": {}},
    {"shell": "cat inbox/research/findings.md"},
    {"shell": f"echo 'It is written: @TAKEN@' > outbox/draft.md; {SUMMARY}", "take": TOKEN},
    {"shell": COMPLETED},
    {"text": "Written."},
]


@pytest.fixture
def plan_of(tmp_path: Path, world: LoopbackWorld) -> Iterator[Callable[[dict[str, Steps]], PlanScene]]:
    made: list[PlanScene] = []

    def plan_of(scripts: dict[str, Steps]) -> PlanScene:
        priced = {name: [{**step, **USAGE} for step in steps] for name, steps in scripts.items()}
        made.append(PlanScene(tmp_path, world, priced))
        return made[-1]

    yield plan_of
    for scene in made:
        scene.close()


def two_tasks(scene: PlanScene, researcher: str, writer: str) -> str:
    """The plan; the answer is the word that is found in the question alone."""
    token = f"token-{secrets.token_hex(16)}"
    project = scene.project
    (project.root / "question.md").write_text(f"What is the answer? It is {token}.\n")
    limits = {"turn_timeout_ms": 120_000, "stall_timeout_ms": 120_000, "max_turns": 3}
    project.plan(defaults=limits, goal="An answer that people can read.")
    project.task(
        "research",
        objective="Find the answer.",
        skill="research",
        inputs=["question.md"],
        outputs=["findings.md"],
        agent=scene.agent(researcher),
    )
    project.task(
        "write",
        objective="Write it down.",
        skill="writer",
        depends_on=["research"],
        outputs=["draft.md"],
        agent=scene.agent(writer),
    )
    return token


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


BOTH_WAYS = pytest.mark.parametrize(
    ("researcher", "writer"),
    [("claude-code", "codex"), ("codex", "claude-code")],
    ids=["claude-codex", "codex-claude"],
)


@BOTH_WAYS
def test_one_researches_one_writes_and_reads_what_was_handed_over(plan_of, researcher, writer):
    """BOX-03, BOX-05, BOX-08, BOX-10: from the input of the first to the outbox of the second."""
    scene = plan_of({researcher: RESEARCH, writer: WRITE})
    token = two_tasks(scene, researcher, writer)
    project = scene.project
    assert scene.run() == 0, project.log()
    assert project.states() == {"research": "completed", "write": "completed"}

    # What the second has is what the first delivered, and what it read is in what it wrote.
    first, second = project.folder("research"), project.folder("write")
    assert (first / "outbox/findings.md").read_text() == f"The answer is {token}.\n"
    assert (second / "outbox/draft.md").read_text() == f"It is written: {token}\n"
    delivered = {path: digest for path, _, digest in project.memo("research").files}
    for name in ("findings.md", "summary.md"):
        hashes = {
            sha256(first / "outbox" / name),
            sha256(second / "inbox/research" / name),
            delivered[f"outbox/{name}"],
        }
        assert len(hashes) == 1, name
    assert any(token in (request["last_result"] or "") for request in scene.requests(writer)), (
        "its own tool read it"
    )
    for name in (researcher, writer):
        read = "".join(request["last_result"] or "" for request in scene.requests(name))
        assert "# Skill: " in read
        assert "## Success Criteria" in read
    assert [project.memo(task).helped for task in ("research", "write")] == [False, False], "both told their end"
    assert [project.memo(task).findings for task in ("research", "write")] == [(), ()]

    # Both were told the protocol; the message came with the prompt of the second, and by the tool.
    for name in (researcher, writer):
        assert TASK_PROMPT.strip() in scene.requests(name)[-1]["told"]
    assert "mind-the-gap" in scene.requests(writer)[0]["told"]
    assert "mind-the-gap" not in scene.requests(researcher)[-1]["told"]
    assert any("mind-the-gap" in (request["last_result"] or "") for request in scene.requests(writer))
    assert [path.name for path in (project.work / "messages").glob("*.json")] == ["research_to_write_001.json"]
    with closing(connect_readonly(project.store)) as db:
        assert tool_calls(db) == {"message_send": {"success": 1}, "message_list": {"success": 1}}

    # Each answer was 1,000 tokens in and 50 out.
    tasks = scene.tasks()
    assert {name: task["tokens"] for name, task in tasks.items()} == {
        "research": 1050 * len(RESEARCH),
        "write": 1050 * len(WRITE),
    }
    of_claude = tasks["research" if researcher == "claude-code" else "write"]
    assert of_claude["cost_usd"] > 0, "it tells what its models cost"
    assert KEY not in project.log()
    wait_for(lambda: not project.living())


@BOTH_WAYS
def test_the_orchestrator_killed_in_the_turn_of_the_writer_goes_on_there(plan_of, tmp_path, researcher, writer):
    """BOX-12: the researcher is not run again, and the writer goes on with its conversation."""
    step, begun, leave = gate(tmp_path)
    scene = plan_of({researcher: RESEARCH, writer: [WRITE[0], step, *WRITE[1:]]})
    token = two_tasks(scene, researcher, writer)
    project = scene.project
    process = project.start()
    wait_for(begun.exists, PATIENCE, project.log)
    asked = len(scene.requests(researcher))
    left = project.living()
    assert any(pid != process.pid for pid in left), "an agent was at work"
    project.kill(process)  # one may live on, another ends by itself when nobody listens any more

    again = project.start()
    wait_for(lambda: not any(is_alive(pid) for pid in left if pid != process.pid), PATIENCE, project.log)
    leave.touch()
    assert again.wait(PATIENCE) == 0, project.log()
    assert project.states() == {"research": "completed", "write": "completed"}
    assert (project.folder("write") / "outbox/draft.md").read_text() == f"It is written: {token}\n"
    (only,) = project.history("research")
    cut, resumed = project.history("write")
    assert (only.status, cut.status, resumed.status) == ("succeeded", "cancelled", "succeeded")
    assert len(scene.requests(researcher)) == asked, "the researcher was not asked again"
    assert cut.session_id
    assert cut.session_id == resumed.session_id
    assert scene.requests(writer)[-1]["told"].count(FIRST_LINE) == 2, "the model was shown the first prompt again"
    assert not (project.folder("write") / "attempts").exists(), "it went on with what it had"
    wait_for(lambda: not project.living())
