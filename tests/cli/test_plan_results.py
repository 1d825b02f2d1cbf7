"""`sortie plan collect` and `archive` on plans that really ran, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from sortie.cli.ticker import Ticker

from ..plans.results_scene import DEADLINE, DOES, PLAN, PlanScene, contents
from .scene import wait_until

GOOD = """\
name: good
defaults: {agent: {kind: command, command: ./agent.sh}, retries: 0}
tasks:
- {name: one, objective: Make one, success_criteria: [It is one], outputs: [one.txt]}
- {name: two, objective: Make two, success_criteria: [It is two], outputs: [two.txt], depends_on: [one]}
"""
DOES_GOOD = {
    "one": "echo 1 > outbox/one.txt; echo '- [x] It is one' > outbox/summary.md",
    "two": "cat inbox/one/one.txt > outbox/two.txt; echo '- [x] it is two.' > outbox/summary.md",
}
WAITS = """
while [ ! -e "$SORTIE_WORKFLOW_DIR/go" ]; do sleep 0.02; done
echo 2 > outbox/two.txt; echo x > outbox/summary.md
"""


@pytest.fixture
def good(tmp_path):
    scene = PlanScene(tmp_path).write(GOOD, DOES_GOOD)
    assert scene.run("run").returncode == 0
    return scene


def test_a_plan_is_run_collected_archived_and_run_anew(good):
    """BOX-11, TBX-16: the archive is complete, the collection stays, and the next run begins anew."""
    collected = good.run("collect")
    assert (collected.returncode, collected.stderr) == (0, "")
    assert "2 of 2 success criteria are shown as met" in collected.stdout
    outboxes = {f"{name}/outbox/{name}.txt": b"1\n" for name in ("one", "two")}
    archived = good.run("archive", "--json")
    assert archived.returncode == 0, archived.stderr
    answer = json.loads(archived.stdout)
    folder = good.root / "_archive" / os.path.basename(answer["folder"])
    assert outboxes.items() <= contents(folder).items()
    assert answer["tasks"] == ["one", "two"]
    assert (good.root / "consolidated/two/two.txt").exists()
    assert not (good.root / "one").exists()
    again = good.run("archive")
    assert (again.returncode, again.stdout) == (0, "There is nothing to archive.\n")
    assert good.run("collect").returncode == 1
    assert "attempt 1, because it was next in line" in good.run("run").stderr
    assert outboxes.items() <= contents(good.root).items()
    history = subprocess.run(
        [*good.command()[:-1], "history", "-w", str(folder / ".sortie.db"), "--json"],
        capture_output=True,
        text=True,
    )
    assert {row["identifier"] for row in json.loads(history.stdout)} == {"one", "two"}


def test_collect_answers_programs_in_json(good):
    answer = json.loads(good.run("collect", "--json", "-o", "out").stdout)
    assert answer["folder"] == str(good.directory / "out")
    assert answer["kept"] is None
    assert answer["manifest"] == json.loads((good.directory / "out/manifest.json").read_text())


def test_the_attempt_and_what_was_odd_are_told(tmp_path):
    """TBX-15, TBX-11: which attempt a file is from, and what its agent should not have done."""
    tries = "[ -d attempts ] || exit 1; chmod u+w inbox; rm inbox/instructions.md; " + DOES_GOOD["one"]
    scene = PlanScene(tmp_path).write(
        GOOD.replace("retries: 0", "retries: 1, retry_delay_ms: 0"), {**DOES_GOOD, "one": tries}
    )
    scene.run("run")
    manifest = json.loads(scene.run("collect", "--json").stdout)["manifest"]
    assert {file["agent"]: file["attempt"] for file in manifest["files"]} == {"one": 2, "two": 1}
    assert manifest["tasks"][0]["findings"] == ["inbox/instructions.md was removed."]
    assert "inbox/instructions.md was removed." in (scene.root / "consolidated/summary.md").read_text()


def test_a_plan_that_runs_is_collected_as_far_as_it_is_but_never_archived(tmp_path):
    """TBX-16: refused while any agent is running, with `--force` too."""
    scene = PlanScene(tmp_path).write(GOOD, {**DOES_GOOD, "two": WAITS})
    service = subprocess.Popen(scene.command("run"), cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: (scene.root / "two/status.json").exists())
        for options in ([], ["--force"], ["--remove", "--force"]):
            refused = scene.run("archive", *options)
            assert refused.returncode == 1
            assert "Stop it first" in refused.stderr
        collected = scene.run("collect")
        assert collected.returncode == 3
        assert "two is running" in collected.stderr
        assert (scene.root / "consolidated/one/one.txt").exists()
    finally:
        (tmp_path / "go").touch()
        service.communicate(timeout=DEADLINE)
    assert service.returncode == 0


def test_a_plan_that_waits_for_a_person_is_archived_only_by_force(tmp_path):
    """TBX-16: refused while it is not over."""
    scene = PlanScene(tmp_path).write(PLAN.replace("retries: 0", "retries: 0, when_failed: escalate"), DOES)
    scene.run("run")
    before = contents(scene.root)
    refused = scene.run("archive")
    assert refused.returncode == 1
    assert "The plan is not over: broken (escalated)" in refused.stderr
    assert "--force" in refused.stderr
    assert contents(scene.root).keys() == before.keys()
    assert scene.run("archive", "--force").returncode == 0
    (folder,) = (scene.root / "_archive").iterdir()
    assert (folder / "ESCALATIONS.md").exists()
    assert not (scene.root / "ESCALATIONS.md").exists()


def test_removal_has_to_be_asked_for(good):
    """BOX-11, TBX-16: workspaces can be removed, explicitly."""
    removed = good.run("archive", "--remove")
    assert removed.returncode == 0, removed.stderr
    assert "one" in removed.stdout
    assert not (good.root / "one").exists()
    assert not (good.root / "_archive").exists()
    assert good.run("archive", "--remove").stdout == "There is nothing to put away: the plan has not been run.\n"


def test_a_plan_that_never_ran_has_nothing_and_what_is_there_is_a_persons(tmp_path):
    """TBX-16: nothing goes that the plan did not make."""
    scene = PlanScene(tmp_path).write(GOOD.replace("name: good", "name: good\nworkspace: mine"), DOES_GOOD)
    (tmp_path / "mine/one").mkdir(parents=True)
    (tmp_path / "mine/one/text").touch()
    assert "has not been run yet" in scene.run("collect").stderr
    for options in ([], ["--remove"]):
        answer = scene.run("archive", *options)
        assert (answer.returncode, answer.stdout) == (
            0,
            "There is nothing to put away: the plan has not been run.\n",
        )
    assert contents(tmp_path / "mine") == {"one/text": b""}


def test_an_archive_whose_process_is_killed_is_finished_by_the_next(good):
    """TBX-16: SIGKILL of the command itself while it copies."""
    for number in range(300):
        (good.root / "one/workspace" / str(number)).write_text(str(number))
    process = subprocess.Popen(good.command("archive"), cwd=good.directory, stdout=subprocess.DEVNULL)
    wait_until(lambda: process.poll() is not None or any((good.root).glob("_archive/.*.new/one/workspace/1*")))
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE)
    assert good.run("archive").returncode == 0
    (folder,) = (good.root / "_archive").iterdir()
    assert len(list((folder / "one/workspace").iterdir())) == 300
    assert not (good.root / "one").exists()


def test_a_slow_command_says_what_it_is_doing(capsys):
    """Nothing takes over two seconds in silence."""
    with Ticker(quiet_seconds=0) as ticker:
        ticker.watch("copying one, 1 of 2")
    assert capsys.readouterr().err == "copying one, 1 of 2 …\n"
    with Ticker() as ticker:
        ticker.watch("copying one, 1 of 2")
    assert capsys.readouterr().err == ""
