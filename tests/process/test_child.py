import errno
import os
import resource
import shutil
import signal
import tracemalloc
from contextlib import contextmanager, suppress

import anyio
import pytest

from sortie.errors import AgentError, WorkspaceError
from sortie.process.child import Exit, start
from sortie.process.pipes import LINE_LIMIT, TRUNCATED

from .scene import all_lines, is_in_table, open_descriptors


async def test_output_comes_as_lines_and_the_exit_code_is_told(launch):
    child = await launch("echo one; echo two >&2; printf three; exit 7")
    assert await all_lines(child) == [b"one", b"two", b"three"]
    assert await child.wait() == Exit(7, None, ended_by_us=False)
    assert await child.end() == Exit(7, None, ended_by_us=False)


async def test_standard_error_can_be_kept_apart(launch):
    child = await launch("echo out; echo err >&2", separate_stderr=True)
    assert await all_lines(child) == [b"out"]
    assert [line async for line in child.error_lines()] == [b"err"]


async def test_a_large_input_goes_in_while_the_output_comes_out(launch):
    child = await launch("cat")
    text = b"0123456789abcde\n" * 65536
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.feed, text)
        assert b"\n".join(await all_lines(child)) + b"\n" == text


async def test_a_conversation_goes_on_until_the_input_is_closed(launch):
    child = await launch("while read -r word; do echo got $word; done")
    answers = child.lines()
    await child.send(b"one\n")
    assert await anext(answers) == b"got one"
    await child.feed(b"two\n")
    assert [line async for line in answers] == [b"got two"]


@pytest.mark.parametrize("program", ["exec true", "exec <&-; sleep 600"])
async def test_a_reader_that_went_away_is_no_error(launch, program):
    child = await launch(program)
    with anyio.fail_after(30):
        await child.feed(b"x" * 1_000_000)


async def test_feeding_ends_with_the_process_though_a_daemon_holds_its_input(launch):
    child = await launch("exec 3<&0; sleep 600 <&3 >/dev/null 2>&1 & exit 0")
    with anyio.fail_after(30):
        await child.feed(b"x" * 1_000_000)
        assert (await child.end()).code == 0


async def test_the_environment_is_exactly_what_was_given(launch, workspace):
    child = await launch(["env"], env={"GREETING": "hello there"})
    names = {line.split(b"=")[0] for line in await all_lines(child)}
    assert names == {b"PATH", b"SORTIE_STORE_ID", b"SORTIE_RUN_ID", b"GREETING", b"PWD"}


async def test_a_directory_swapped_in_under_the_name_is_not_entered(workspace):
    """A2O-02: the process starts in the directory that was verified, not in what has its name now."""
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    verified = workspace.rename(workspace.with_name("moved"))
    workspace.mkdir()
    child = await start(["pwd", "-P"], cwd_fd=fd, env=os.environ, run_id="r", workspace=workspace)
    os.close(fd)
    assert await all_lines(child) == [os.fsencode(verified)]
    await child.end()


async def test_a_removed_workspace_is_said_to_be_gone(workspace):
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    workspace.rmdir()
    with pytest.raises(WorkspaceError, match="removed"):
        await start(["true"], cwd_fd=fd, env=os.environ, run_id="r", workspace=workspace)
    os.close(fd)


async def test_what_is_no_directory_cannot_be_a_workspace(tmp_path):
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    with pytest.raises(WorkspaceError, match="Not a directory"):
        await start(["true"], cwd_fd=fd, env=os.environ, run_id="r", workspace=tmp_path)
    os.close(fd)


async def test_a_missing_program_is_not_found(launch):
    with pytest.raises(AgentError, match="no-such-program was not found") as caught:
        await launch(["no-such-program"])
    assert (caught.value.kind, caught.value.retry) == (AgentError.NOT_FOUND, False)


@pytest.mark.parametrize(("mode", "reason"), [(0o644, "Permission denied"), (0o755, "Exec format error")])
async def test_a_file_that_is_no_program_is_not_executable(launch, workspace, mode, reason):
    script = workspace / "agent"
    script.write_bytes(b"\0\1\2")
    script.chmod(mode)
    with pytest.raises(AgentError, match=reason) as caught:
        await launch(["./agent"])
    assert caught.value.kind == AgentError.NOT_EXECUTABLE


async def test_a_text_that_no_program_can_be_given_is_a_configuration_error(launch):
    with pytest.raises(AgentError, match="null byte") as caught:
        await launch(["echo", "a\0b"])
    assert caught.value.kind == AgentError.CONFIG


async def test_without_free_descriptors_the_start_fails_and_may_be_tried_again(workspace):
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    failures, children = [], []
    # Each free descriptor lets the start come one step further.
    for free in range(1, 12):
        with only_so_many_descriptors(free):
            try:
                children.append(await start(["true"], cwd_fd=fd, env=os.environ, run_id="r", workspace=workspace))
            except AgentError as error:
                failures.append(error)
    os.close(fd)
    for child in children:
        await child.end()
    assert len(failures) >= 5
    assert all(error.retry and os.strerror(errno.EMFILE) in str(error) for error in failures)
    assert children


@contextmanager
def only_so_many_descriptors(free):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_descriptors()) + 64, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(1))
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_end_asks_first_and_its_part_in_the_end_is_recorded(launch):
    child = await launch("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    lines = child.lines()
    assert await anext(lines) == b"ready"
    assert await child.end(grace=30) == Exit(0, None, ended_by_us=True)


async def test_who_ignores_the_request_is_killed(launch):
    child = await launch("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    assert await anext(child.lines()) == b"ready"
    assert await child.end(grace=0.1) == Exit(None, signal.SIGKILL, ended_by_us=True)


async def test_a_process_killed_by_others_is_not_counted_as_ended_by_us(launch):
    child = await launch("kill -SEGV $$")
    assert await child.wait() == Exit(None, signal.SIGSEGV, ended_by_us=False)
    assert await child.end() == Exit(None, signal.SIGSEGV, ended_by_us=False)


async def test_end_at_once_after_an_exit_that_nobody_noticed_yet_does_not_take_the_credit(launch):
    child = await launch(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert await child.end() == Exit(0, None, ended_by_us=False)


async def test_end_may_be_called_again_and_by_several(launch):
    child = await launch("sleep 600")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.end)
        tasks.start_soon(child.end)
    assert await child.end() == await child.wait() == Exit(None, signal.SIGTERM, ended_by_us=True)


async def test_an_end_that_was_cancelled_can_be_finished_later(launch):
    child = await launch("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    assert await anext(child.lines()) == b"ready"
    with anyio.move_on_after(0.05) as scope:
        await child.end(grace=600)
    assert scope.cancelled_caught
    assert (await child.end(grace=0)).signal == signal.SIGKILL


async def test_end_ends_the_reading_in_another_task(launch):
    child = await launch("echo ready; sleep 600")
    heard = []
    ready = anyio.Event()

    async def listen():
        async for line in child.lines():
            heard.append(line)
            ready.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await ready.wait()
            await child.end()
    assert heard == [b"ready"]


async def test_a_hundred_megabytes_in_one_line_cost_little_memory(launch):
    child = await launch("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo after")
    tracemalloc.start()
    try:
        lines = await all_lines(child)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines == [b"x" * LINE_LIMIT + TRUNCATED, b"after"]
    assert peak < 8 * LINE_LIMIT


async def test_a_flood_of_lines_leaves_the_loop_to_others(launch):
    child = await launch(["yes"])
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        heard = 0
        async for _ in child.lines():
            heard += 1
            if heard == 100_000:
                break
        tasks.cancel_scope.cancel()
    assert turns > 100


async def test_two_hundred_children_at_once_leave_nothing_behind(launch):
    before = open_descriptors()
    children = []

    async def live():
        child = await launch("cat; exit 3")
        children.append(child)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.feed, b"hello\n")
            assert await all_lines(child) == [b"hello"]
        assert (await child.end()).code == 3

    async with anyio.create_task_group() as tasks:
        for _ in range(200):
            tasks.start_soon(live)
    assert len(children) == 200
    assert not [child for child in children if is_in_table(child.identity)]
    assert open_descriptors() == before


async def test_the_process_keeps_its_number_until_it_is_ended(launch):
    child = await launch(["true"])
    await child.wait()
    assert is_in_table(child.identity)
    await child.end()
    assert not is_in_table(child.identity)


async def test_removed_workspaces_do_not_stop_the_end(launch, workspace):
    child = await launch("echo ready; sleep 600")
    assert await anext(child.lines()) == b"ready"
    shutil.rmtree(workspace)
    assert (await child.end()).ended_by_us


async def test_a_reader_that_does_not_read_on_makes_the_process_wait(launch, workspace):
    child = await launch("yes | head -n 2000000; touch written")
    lines = child.lines()
    assert await anext(lines) == b"y"
    for _ in range(1000):
        await anyio.lowlevel.checkpoint()
    assert not (workspace / "written").exists()
    assert len([line async for line in lines]) == 1_999_999
    await child.wait()
    assert (workspace / "written").exists()
