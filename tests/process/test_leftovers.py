"""Whatever a program leaves behind, nothing of it is left after `end`."""

import shlex
import subprocess
from pathlib import Path

import anyio
import pytest

from sortie.process.child import Child
from sortie.process.orphans import orphan_tracker

from .scene import WAIT_FOR_DAEMON, all_lines, daemon, daemon_of, is_in_table, is_running, until

SILENT = "</dev/null >/dev/null 2>&1"
STRIPPED = "setsid env -i PATH=$PATH"


async def end_leaves_nothing(child: Child, workspace: Path) -> None:
    left = await until(lambda: daemon_of(workspace))
    assert is_running(left)
    await child.end(grace=10)
    assert not is_in_table(left)


@pytest.mark.parametrize("output", ["", SILENT], ids=["open-output", "closed-output"])
@pytest.mark.parametrize(
    ("before", "move"),
    [("", ""), ("setsid", ""), ("setsid", "cd /;"), (STRIPPED, "")],
    ids=["same-session", "setsid", "setsid-elsewhere", "setsid-without-mark"],
)
async def test_a_daemon_is_gone_after_the_program_that_left_it(launch, workspace, before, move, output):
    script = daemon(workspace, before, move)
    child = await launch(f"echo hello; {script} {output} & {WAIT_FOR_DAEMON}; exit 0")
    with anyio.fail_after(30):
        assert await all_lines(child) == [b"hello"]
        assert (await child.wait()).code == 0
    await end_leaves_nothing(child, workspace)


@pytest.mark.parametrize("before", ["", "setsid", STRIPPED])
async def test_a_running_program_is_ended_with_its_daemons(launch, workspace, before):
    script = daemon(workspace, before, "cd /;")
    child = await launch(f"{script} {SILENT} & {WAIT_FOR_DAEMON}; sleep 600")
    await end_leaves_nothing(child, workspace)


async def test_a_double_fork_hides_nobody(launch, workspace):
    script = shlex.quote(f"( ( {daemon(workspace, does='cd /;')} & ) & )")
    child = await launch(f"setsid sh -c {script} {SILENT}; exit 0")
    await end_leaves_nothing(child, workspace)


async def test_a_daemon_that_ignores_the_request_is_killed(launch, workspace):
    script = daemon(workspace, "setsid", "trap '' TERM;")
    child = await launch(f"{script} {SILENT} & {WAIT_FOR_DAEMON}; exit 0")
    await child.wait()
    await end_leaves_nothing(child, workspace)


async def test_who_was_seen_in_the_tree_stays_in_it_when_the_parents_die_first(launch, workspace):
    """The tool's shell obeys the request; its child, unmarked and elsewhere, does not and becomes ours."""
    script = shlex.quote(daemon(workspace, "env -i PATH=$PATH setsid", "cd /; trap '' TERM;") + "; :")
    child = await launch(f"setsid sh -c {script} & wait")
    left = await until(lambda: daemon_of(workspace))
    await child.end(grace=0.3)
    assert not is_in_table(left)


async def test_a_daemon_that_never_stops_talking_does_not_keep_the_reader(launch, workspace):
    child = await launch("setsid yes & echo mine; exit 0")
    with anyio.fail_after(30):
        lines = await all_lines(child)
    assert b"mine" in lines


async def test_all_that_the_program_itself_wrote_is_heard_though_the_reader_is_late(launch):
    child = await launch("sleep 600 & seq 1 5000; exit 0")
    await child.wait()
    await until(lambda: anyio.current_time() > child._stdout._drain_until)
    assert await all_lines(child) == [str(n).encode() for n in range(1, 5001)]


async def test_the_daemons_of_other_runs_and_our_own_children_are_spared(launch, workspace, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    script = f"%s {SILENT} & {WAIT_FOR_DAEMON}; exit 0"
    theirs = await launch(script % daemon(other, "setsid"), run_id="run-2", directory=other)
    ours = await launch(script % daemon(workspace, "setsid"), run_id="run-1")
    await theirs.wait()
    await ours.wait()
    with subprocess.Popen(["sleep", "600"], cwd=workspace) as own:
        await end_leaves_nothing(ours, workspace)
        assert own.poll() is None
        own.kill()
    assert is_running(daemon_of(other))
    await end_leaves_nothing(theirs, other)


async def test_a_mark_of_another_run_counts_more_than_the_directory(launch, workspace, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = daemon(elsewhere, "setsid", f"cd {workspace};")
    theirs = await launch(f"{script} {SILENT} & {WAIT_FOR_DAEMON}; exit 0", run_id="run-2", directory=elsewhere)
    await theirs.wait()
    ours = await launch("exit 0")
    await ours.end()
    assert is_running(daemon_of(elsewhere))


async def test_adopted_zombies_can_be_reaped_while_the_program_runs(launch, workspace):
    # The shell in between dies at once, so that the zombie is ours and not the program's.
    child = await launch("setsid sh -c 'sh -c \"echo \\$\\$ > daemon.pid; exec sleep 0.05\" & exit 0'; sleep 600")
    left = await until(lambda: daemon_of(workspace))
    await until(lambda: not is_running(left))
    await orphan_tracker.check()
    assert not is_in_table(left)
    assert is_running(child.identity)
