"""A process beside the service: told whole lines, heard in moderation, kept alive, spared by those who tidy up."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

from sortie.process.identity import identify
from sortie.process.orphans import orphan_tracker
from sortie.process.output_lines import LONGEST_LINE, MOST_AT_ONCE, OutputLines
from sortie.process.supervised_child import TRIES, SupervisedChild

from .scene import is_in_table, is_running, open_descriptors, until

SAYS_WHO = "import os, sys; print('I am', os.getpid(), flush=True)\n"


def nothing():
    return None


@pytest.fixture(autouse=True)
def heard(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


def lines(heard):
    return [record.getMessage() for record in heard.records]


def number_of(heard, which=-1):
    """Of the process that said so last."""
    told = [line for line in lines(heard) if line.startswith("friend: I am ")]
    return identify(int(told[which].split()[-1])) if told else None


def living(heard):
    """That one, if it is there."""
    found = number_of(heard)
    return found if found and is_running(found) else None


def gone(friend):
    return not is_in_table(friend)


@asynccontextmanager
async def beside(program, line=nothing, every=0.02, **options):
    child_process = SupervisedChild("friend", [sys.executable, "-c", program], os.environ, **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child_process.run, line, every)
        yield
        tasks.cancel_scope.cancel()


async def test_lines_arrive_whole_and_those_that_it_does_not_read_are_dropped(heard, tmp_path):
    """A reader that pauses until it may go on; each line is more than a pipe holds."""
    asked: list[None] = []
    goes_on = tmp_path / "go"

    def line():
        asked.append(None)
        return b"%d " % len(asked) + b"x" * 3_000_000 + b"\n"

    def read():
        return [said.split()[2:] for said in lines(heard) if "read" in said]

    program = (
        "import os, sys, time\n"
        "def read(): line = sys.stdin.readline(); print('read', line.split()[0], len(line), flush=True)\n"
        "print(sys.stdin.readline().strip()); read()\n"
        f"while not os.path.exists({str(goes_on)!r}): time.sleep(0.01)\n"
        "for n in range(3): read()\n"
        "sys.stdin.read()\n"
    )
    async with beside(program, line, first=b"hello\n"):
        await until(lambda: len(read()) == 1)
        offered = len(asked) + 10
        await until(lambda: len(asked) > offered)
        goes_on.touch()
        await until(lambda: len(read()) == 4)
    assert lines(heard)[0] == "friend: hello"
    assert all(int(length) == 3_000_000 + len(number) + 2 for number, length in read())
    numbers = [int(number) for number, _ in read()]
    assert numbers == sorted(numbers) and numbers[2] > offered, "it was told what is newest, not what it missed"


async def test_it_is_started_anew_after_it_died_and_told_the_first_line_again(heard):
    program = SAYS_WHO + "print('first', sys.stdin.readline().strip(), flush=True); sys.stdin.read()\n"
    async with beside(program, first=b"orders\n"):
        first = await until(partial(number_of, heard))
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: lines(heard).count("friend: first orders") == 2)
        assert not is_in_table(first)
    assert "the friend was ended by signal 9, and is started anew" in lines(heard)
    assert not is_in_table(identify(first.pid) or first)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([sys.executable, "-c", "import sys; sys.exit(3)"], "ended with exit code 3"),
        (["/no/such/program"], "cannot be started (No such file or directory)"),
    ],
)
async def test_one_that_ends_again_and_again_is_given_up(heard, argv, told):
    before = open_descriptors()
    await SupervisedChild("friend", argv, os.environ).run(nothing, 1.0)
    assert lines(heard) == [f"the friend {told}, and is started anew"] * (TRIES - 1) + [
        f"the friend {told} again, and is given up; the service goes on without it"
    ]
    assert open_descriptors() == before


async def test_one_that_is_killed_again_and_again_is_not(heard):
    async with beside(SAYS_WHO + "sys.stdin.read()\n"):
        for _ in range(TRIES):
            friend = await until(partial(living, heard))
            os.kill(friend.pid, signal.SIGKILL)
            await until(partial(gone, friend))
        await until(partial(living, heard))
    assert lines(heard).count("the friend was ended by signal 9, and is started anew") == TRIES


async def test_nor_is_one_that_there_was_no_room_for(heard):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with beside(SAYS_WHO + "sys.stdin.read()\n"):
        friend = await until(partial(number_of, heard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            os.kill(friend.pid, signal.SIGKILL)
            full = "the friend cannot be started (Too many open files), and is started anew"
            await until(lambda: lines(heard).count(full) == TRIES - 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(partial(living, heard))


async def test_what_it_says_is_passed_on_in_moderation(heard):
    program = (
        "import sys\n"
        "print('y' * 1_000_000, flush=True)\n"
        "for n in range(20_000): print('line', n)\n"
        "print('\\x00\\xff no newline', end='', flush=True); sys.stdin.read()\n"
    )
    async with beside(program):
        await until(lambda: len(lines(heard)) >= MOST_AT_ONCE)
    told = lines(heard)
    assert len(told) < 2 * MOST_AT_ONCE
    assert max(map(len, told)) <= LONGEST_LINE + len("friend: ")
    assert any("lines were left out" in line for line in told)


async def test_when_we_end_it_is_gone_also_if_it_does_not_want_to(heard):
    before = open_descriptors()
    program = "import signal; signal.signal(15, signal.SIG_IGN)\n" + SAYS_WHO + "while True: signal.pause()\n"
    async with beside(program):
        friend = await until(partial(number_of, heard))
    assert not is_in_table(friend)
    assert not any("started anew" in line for line in lines(heard))
    assert open_descriptors() == before


async def test_it_is_no_orphan_and_costs_nobody_else_a_look(launch, heard):
    with orphan_tracker.sole_parent():
        async with beside(SAYS_WHO + "sys.stdin.read()\n"):
            friend = await until(partial(number_of, heard))
            await (await launch("exit 0")).end()
            assert orphan_tracker.has_none()
            found = await orphan_tracker.check()
            assert (found.ended, found.in_doubt) == ([], [])
            await orphan_tracker.end_all(grace=0)
            assert is_running(friend)
    assert not is_in_table(friend)


async def test_ctrl_c_on_the_terminal_is_not_for_it(heard):
    async with beside(SAYS_WHO + "sys.stdin.read()\n"):
        friend = await until(partial(number_of, heard))
        assert os.getpgid(friend.pid) != os.getpgrp()
        assert os.getsid(friend.pid) == os.getsid(0)


async def test_with_kill_9_of_us_it_is_gone_at_once(tmp_path):
    """Without reading anything, and without an end of its input to notice."""
    told = tmp_path / "pid"
    child = (
        "import os, pathlib, sys, time; from sortie.process.parent import end_with\n"
        "end_with(int(sys.argv[2])); pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()}\\n'); time.sleep(600)\n"
    )
    parent = (
        "import os, sys, anyio\nfrom sortie.process.supervised_child import SupervisedChild\n"
        f"child_process = SupervisedChild('friend', [sys.executable, '-c', {child!r}, {str(told)!r}], os.environ)\n"
        "anyio.run(child_process.run, lambda: None, 1.0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as popen:
        await until(lambda: told.exists() and told.read_text().endswith("\n"))
        friend = identify(int(told.read_text()))
        assert friend is not None
        popen.kill()
        popen.wait()
    await until(lambda: not is_running(friend))
    os.waitpid(friend.pid, 0)  # what is left of it came to us


@pytest.mark.anyio
async def test_who_is_not_heard_any_more_is_not_waited_for_however_much_somebody_else_says():
    """The other end may be open in a process that was left behind, and writes as fast as it is read."""
    reading, writing = os.pipe()
    passed_on: list[str] = []

    def and_more(line: str) -> None:
        passed_on.append(line)
        os.write(writing, b"and more\n")

    said = OutputLines(reading, and_more)
    os.write(writing, b"the last word\n")
    said.close()
    assert passed_on == ["the last word"]
    os.close(writing)
