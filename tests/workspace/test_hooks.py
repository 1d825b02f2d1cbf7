import os

import anyio
import pytest

from sortie.errors import HookError
from sortie.process.identity import RUN_MARK
from sortie.process.process_table import look_up
from sortie.process.spawn import prepare
from sortie.workspace.hooks import run_hook


@pytest.fixture(autouse=True)
def prepared():
    prepare()


@pytest.fixture
def hook(tmp_path):
    """Runs a script as the hook `before_run` and returns what it printed."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)

    async def hook(script, *, timeout=30.0, on_line=None):
        lines: list[str] = []
        await run_hook(
            "before_run",
            script,
            workspace=tmp_path,
            workspace_fd=fd,
            env={"PATH": os.environ["PATH"], RUN_MARK: "run-1"},
            run_id="run-1",
            timeout=timeout,
            on_line=on_line or lines.append,
        )
        return lines

    yield hook
    os.close(fd)


def alive(pid: int) -> bool:
    process = look_up(pid)
    return process is not None and not process.ended


async def test_a_hook_runs_in_the_workspace_and_its_output_is_heard(hook, tmp_path):
    assert await hook("pwd; echo oops >&2") == [str(tmp_path), "oops"]


async def test_a_hook_has_nothing_to_read(hook):
    assert await hook("cat; echo end") == ["end"]


async def test_a_hook_that_fails_is_named_with_its_code_and_output(hook):
    with pytest.raises(HookError, match="Hook before_run failed: exit code 4") as caught:
        await hook("echo first; echo last; exit 4")
    assert caught.value.output == "first\nlast"
    assert str(caught.value) == "Hook before_run failed: exit code 4: last."


async def test_the_last_words_of_a_hook_are_bounded_and_may_be_missing(hook):
    with pytest.raises(HookError) as caught:
        await hook("printf 'x%.0s' $(seq 5000); echo; echo; exit 4")
    assert str(caught.value).endswith("xxx.") and len(str(caught.value)) < 300
    with pytest.raises(HookError, match=r"failed: exit code 5\.$"):
        await hook("exit 5")


async def test_a_hook_of_several_lines_stops_at_the_first_failure(hook, tmp_path):
    """What follows a line that failed would run on a false assumption."""
    with pytest.raises(HookError, match="exit code 1"):
        await hook("echo one\nfalse\ntouch two\n")
    assert not (tmp_path / "two").exists()


async def test_a_failure_that_the_hook_itself_deals_with_is_none(hook):
    assert await hook("false || echo dealt with\nif false; then :; fi\necho end") == ["dealt with", "end"]


async def test_a_hook_ended_by_a_signal_says_so(hook):
    with pytest.raises(HookError, match="Killed"):
        await hook("kill -KILL $$")


async def test_only_the_end_of_the_output_is_kept(hook):
    with pytest.raises(HookError) as caught:
        await hook("seq 1 100000; exit 1")
    assert caught.value.output.endswith("99999\n100000")
    assert len(caught.value.output) <= 2048


async def test_a_hook_that_hangs_is_ended_with_all_that_it_started(hook):
    lines: list[str] = []
    with pytest.raises(HookError, match="did not end within 2 s") as caught:
        await hook("setsid sleep 600 & echo $!; echo $$; wait", timeout=2.0, on_line=lines.append)
    assert len(lines) == 2
    assert not [line for line in lines if alive(int(line))]
    assert caught.value.output == "\n".join(lines)


async def test_a_hook_that_prints_without_end_is_ended(hook):
    count = 0

    def heard(line):
        nonlocal count
        count += 1

    with pytest.raises(HookError, match="did not end"):
        await hook("yes", timeout=0.5, on_line=heard)
    assert count > 0


async def test_a_daemon_that_a_hook_leaves_is_ended(hook):
    with anyio.fail_after(30):
        (pid,) = await hook("setsid sleep 600 & echo $!")
    assert not alive(int(pid))


async def test_a_hook_that_cannot_start_says_why(hook):
    with pytest.raises(HookError, match=r"before_run could not start: .*too long"):
        await hook(": " + "x" * 200_000)


async def test_a_cancelled_hook_is_ended_before_the_cancellation_goes_on(hook):
    lines: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def run():
            await hook("echo $$; exec sleep 600", on_line=lines.append)

        tasks.start_soon(run)
        with anyio.fail_after(30):
            while not lines:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert not alive(int(lines[0]))
