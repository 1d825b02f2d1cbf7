"""The folder of a task with a real agent in it: what it is given, says and delivers, and how it is judged."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import textwrap

import pytest

from sortie.plans.instructions import lint_instructions

ERROR = '{"type": "ValidationError", "message": "Input file format invalid", "details": "Expected CSV", %s}'


def test_an_agent_finds_the_folder_of_the_document(plan):
    """BOX-01, BOX-02: SKILL.md, inbox, outbox, workspace, and status.json that says pending."""
    look = 'say "$(ls | sort | tr "\\n" " ")"; say "$(pwd)"; cp status.json outbox/first-status.json; deliver'
    plan.task("one", look)
    plan.run()
    first, second = plan.diary()
    assert first.split() == ["one", "SKILL.md", "inbox", "outbox", "status.json", "workspace"]
    assert second == f"one {plan.folder('one')}"
    found = json.loads((plan.folder("one") / "outbox" / "first-status.json").read_text())
    assert (found["state"], found["started"], found["completed"], found["error"]) == ("pending", None, None, None)
    assert {"progress", "metrics"} <= found.keys()


def test_instructions_have_every_section_of_the_document_from_the_plan(plan):
    """BOX-03, TBX-18"""
    (plan.root / "data.csv").write_text("a,b\n")
    plan.task(
        "one",
        context="It matters.",
        inputs=[{"path": "data.csv", "description": "the numbers"}],
        requirements=["Be quick."],
        success_criteria=["It is right.", "It is short."],
        constraints=["No network."],
        outputs=[{"path": "outbox/result.md", "description": "the answer"}],
    )
    plan.run()
    text = (plan.folder("one") / "inbox" / "instructions.md").read_text()
    assert lint_instructions(text) == []
    for told in (
        "# Task: one",
        "Do one.",
        "It matters.",
        "`data.csv` - the numbers",
        "1. Be quick.",
        "- [ ] It is right.",
    ):
        assert told in text
    assert "- No network." in text and "`outbox/result.md` - the answer" in text and "`outbox/summary.md`" in text


def test_inputs_are_copies_that_an_agent_should_not_change_and_originals_stay(plan):
    """BOX-04, TBX-11: modes forbid it, the hash tells, and nothing but the copy is touched."""
    (plan.root / "data.csv").write_text("original")
    spoil = "chmod -R u+w inbox SKILL.md; echo spoiled > inbox/data.csv; echo x > inbox/more; echo y >> SKILL.md"
    plan.task(
        "one",
        f'say "$(stat -c %a inbox/data.csv inbox SKILL.md | tr "\\n" " ")"; {spoil}; deliver',
        inputs=["data.csv"],
    )
    log = plan.run()
    assert plan.diary() == ["one 444 550 444 "]
    assert (plan.root / "data.csv").read_text() == "original"
    findings = " ".join(plan.memo("one").findings)
    assert "inbox/data.csv" in findings and "SKILL.md" in findings and "inbox/more" in findings
    assert "inbox/data.csv" in log
    assert "inbox/data.csv" in plan.sortie("why", "one").stdout


def test_a_large_input_goes_by_reference_with_its_size_and_hash(plan):
    """BOX-04, TBX-09"""
    (plan.root / "big.bin").write_bytes(b"x" * 5000)
    (plan.root / "small.bin").write_bytes(b"y" * 50)
    plan.task("one", inputs=["big.bin", "small.bin"], input_limit_bytes=1000)
    plan.run()
    inbox = plan.folder("one") / "inbox"
    assert (inbox / "small.bin").read_bytes() == b"y" * 50
    assert not (inbox / "big.bin").exists()
    assert json.loads((inbox / "big.bin.ref.json").read_text()) == {
        "path": str(plan.root / "big.bin"),
        "size": 5000,
        "sha256": hashlib.sha256(b"x" * 5000).hexdigest(),
        "media_type": "application/octet-stream",
    }
    assert "big.bin.ref.json" in (inbox / "instructions.md").read_text()


def test_a_task_that_says_completed_and_delivered_is_completed(plan):
    """BOX-02, BOX-05"""
    script = """\
        status '{"state": "running", "started": "'$(date -u +%Y-%m-%dT%H:%M:%SZ)'"}'
        deliver
        echo log > outbox/changelog.md; mkdir outbox/data
        echo 1 > outbox/data/a.csv; echo {} > outbox/metadata.json
        echo temporary > workspace/notes
        status '{"state": "completed", "metrics": {"files_processed": 12}}'
    """
    plan.task("one", textwrap.dedent(script))
    plan.run()
    memo = plan.memo("one")
    expected = ["changelog.md", "data/a.csv", "metadata.json", "result.md", "summary.md"]
    assert [path for path, _, _ in memo.files] == [f"outbox/{name}" for name in expected]
    assert not memo.helped
    assert plan.status_of("one") == {"state": "completed", "metrics": {"files_processed": 12}}  # its own word stays


def test_an_agent_that_knows_nothing_of_status_json_is_helped(plan):
    """BOX-02: judged by exit and deliverables, and the last state is written on its behalf and marked as such."""
    plan.task("one")
    plan.run()
    found = plan.status_of("one")
    assert (found["state"], found["written_by"], found["attempt"]) == ("completed", "sortie", 1)
    assert found["started"] <= found["completed"]
    assert plan.memo("one").helped


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ('status \'{"state": "completed"}\'', "outbox/summary.md is missing"),
        ('echo x > outbox/result.md; status \'{"state": "completed"}\'', "outbox/summary.md is missing"),
        ('deliver; : > outbox/result.md; status \'{"state": "completed"}\'', "outbox/result.md is empty"),
        ("deliver; rm outbox/result.md; echo x > outbox/other.md", "outbox/result.md is missing"),
        ("deliver; rm -r outbox", "outbox cannot be read"),
        (":", "outbox/summary.md is missing"),
    ],
)
def test_completed_without_what_it_owes_is_incomplete(plan, script, missing):
    """BOX-05, TBX-06: the claim is not believed, and nobody starts after it."""
    plan.task("one", script)
    plan.task("two", depends_on=["one"])
    plan.run(3)
    assert plan.states() == {"one": "incomplete", "two": "blocked"}
    assert missing in plan.note("one")
    assert missing in plan.note("two")


def test_what_a_dependant_needs_is_owed_though_nobody_declared_its_content(plan):
    """TBX-06: every file that a dependant names has to be there, also one of those that need no declaration."""
    plan.task("one")
    plan.task("two", depends_on=[{"task": "one", "outputs": ["outbox/changelog.md"]}])
    plan.run(3)
    assert "outbox/changelog.md" in plan.note("one")


def test_a_failure_is_told_with_its_error_and_not_tried_again_where_the_agent_says_so(plan):
    """BOX-06, TBX-13: `recoverable: false` never tries again by itself."""
    failed = '{"state": "failed", "error": ' + ERROR % '"recoverable": false' + "}"
    plan.task("one", f"status '{failed}'; mkdir outbox/partial; echo half > outbox/partial/a", retries=5)
    plan.run(3)
    assert plan.states() == {"one": "failed"}
    assert plan.note("one") == "ValidationError: Input file format invalid (Expected CSV)"
    assert len(plan.history("one")) == 1
    assert plan.status_of("one")["error"]["type"] == "ValidationError"
    report = (plan.folder("one") / "outbox" / "error_report.md").read_text()
    headings = [line for line in report.splitlines() if line.startswith("#")]
    assert headings == [
        *("# Error Report", "## Error Type", "## Description"),
        *("## Attempted Recovery", "## Suggested Resolution", "## Partial Work"),
    ]


def test_the_report_of_the_agent_stays_its_own(plan):
    """BOX-06"""
    failed = '{"state": "failed", "error": ' + ERROR % '"recoverable": false' + "}"
    plan.task("one", f"status '{failed}'; printf '# Error Report\\nmine\\n' > outbox/error_report.md")
    plan.run(3)
    assert (plan.folder("one") / "outbox" / "error_report.md").read_text() == "# Error Report\nmine\n"


@pytest.mark.parametrize(
    ("script", "state", "why"),
    [
        ("exit 7", "failed", "exit code 7"),
        ("kill -9 $$", "failed", "SIGKILL"),
        ('status \'{"state": "running"}\'; deliver', "failed", "without a final state"),
    ],
)
def test_an_agent_that_ends_without_a_final_state_failed_and_the_report_is_written_for_it(plan, script, state, why):
    """BOX-02, BOX-06: recoverable, so it is tried again as often as the plan allows."""
    plan.task("one", script, retries=1)
    plan.run(3)
    assert plan.states() == {"one": state}
    assert why in plan.note("one")
    assert [row.status for row in plan.history("one")] == ["failed", "failed"]
    assert "# Error Report" in (plan.folder("one") / "outbox" / "error_report.md").read_text()
    assert (plan.folder("one") / "attempts" / "001" / "outbox" / "error_report.md").exists()


def test_a_status_is_written_for_an_agent_that_died_before_it_said_anything_and_left_alone_otherwise(plan):
    """TBX-01: what we think is never written over an agent's own word."""
    plan.task("silent", "exit 1")
    plan.task("running", 'status \'{"state": "running"}\'; exit 1')
    plan.run(3)
    silent = plan.status_of("silent")
    assert (silent["state"], silent["written_by"]) == ("failed", "sortie")
    assert "exit code 1" in silent["error"]["message"]
    assert plan.status_of("running") == {"state": "running"}


STATUSES = {
    "missing": ("rm status.json", "completed"),
    "empty": (": > status.json", "failed"),
    "half-written": ('status \'{"state": "compl\'', "failed"),
    "binary": ("head -c 100 /dev/urandom > status.json", "failed"),
    "unknown state": ('status \'{"state": "done"}\'', "failed"),
    "wrong type": ('status \'{"state": "completed", "progress": 3}\'', "failed"),
    "another attempt": ('status \'{"state": "completed", "attempt": 9}\'', "completed"),
    "future": ('status \'{"state": "completed", "completed": "2199-01-01T00:00:00Z"}\'', "completed"),
    "long ago": ('status \'{"state": "failed", "completed": "2001-01-01T00:00:00Z"}\'', "completed"),
}


@pytest.mark.parametrize("kind", list(STATUSES))
def test_every_odd_status_has_its_outcome_and_is_reported(plan, kind):
    """BOX-02, TBX-02, TBX-03, TBX-17: what is not believed leaves the last good status standing. That is pending: a
    task of which nothing can be read ended without a final state, one that never spoke is judged by its outbox."""
    script, state = STATUSES[kind]
    plan.task("one", f"deliver; {script}")
    plan.run(0 if state == "completed" else 3)
    assert plan.states() == {"one": state}
    why = plan.sortie("why", "one").stdout
    assert "something is odd" in why, why
    if state == "failed":
        assert "without a final state" in plan.note("one")
        assert (plan.folder("one") / "status.json").exists(), "never deleted"


def test_a_status_that_goes_backwards_does_not_take_back_what_was_said(plan):
    """TBX-01, BOX-02: in a second turn the agent says pending after running."""
    script = """\
        if [ "$SORTIE_TURN" = 1 ]; then status '{"state": "running"}'; exit 0; fi
        status '{"state": "pending"}'; deliver
    """
    plan.task("one", textwrap.dedent(script), max_turns=2)
    plan.run(3)
    assert "went back from running to pending" in plan.sortie("why", "one").stdout
    assert "without a final state" in plan.note("one")


def test_a_further_turn_is_told_what_is_missing(plan):
    script = """\
        cat > "workspace/prompt-$SORTIE_TURN"
        if [ "$SORTIE_TURN" = 1 ]; then echo x > outbox/result.md; else deliver; fi
    """
    plan.task("one", textwrap.dedent(script), max_turns=3)
    plan.run()
    first, second = ((plan.folder("one") / "workspace" / f"prompt-{n}").read_text() for n in (1, 2))
    assert "inbox/instructions.md" in first and '"state": "running"' in first
    assert "outbox/summary.md is missing" in second and "inbox/instructions.md" not in second
    assert not (plan.folder("one") / "workspace" / "prompt-3").exists()


def test_progress_is_shown_while_the_agent_works(plan):
    """BOX-02"""
    progress = (
        '{"state": "running", "progress": {"current_step": "analysing", "steps_completed": 3, "total_steps": 5}}'
    )
    plan.task(
        "one",
        f"status '{progress}'; say here; while [ ! -e \"$SORTIE_WORKFLOW_DIR/go\" ]; do :; done; deliver\n"
        """status '{"state": "completed"}'""",
    )
    running = plan.start()
    plan.until_said("one here")
    told = json.loads(plan.sortie("status", "--json").stdout)["tasks"][0]
    assert (told["state"], told["progress"]) == ("running", "step 3/5 analysing")
    (plan.root / "go").touch()
    assert running.wait(30) == 0


def test_modes_do_not_keep_a_folder_from_being_used_again(plan):
    """What an agent, or we, forbade by modes is put away all the same."""
    plan.task("one", "mkdir workspace/locked; chmod 0 workspace/locked; chmod 500 outbox; exit 1", retries=1)
    plan.run(3)
    assert (plan.folder("one") / "attempts" / "001" / "workspace" / "locked").exists()
    assert stat.S_IMODE(os.stat(plan.folder("one") / "attempts" / "001" / "outbox").st_mode) == 0o500
