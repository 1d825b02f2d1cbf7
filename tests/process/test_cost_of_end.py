"""What the end of a program costs: nothing that grows with the machine, and nobody is overlooked for it."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest

from .scene import all_lines, daemon, daemon_of, is_in_table, until

ROOT = Path(__file__).parents[2]
HANDFUL = 4

opened: list[object] | None = None


def note_open(event: str, arguments: tuple[object, ...]) -> None:
    if opened is not None and event in ("open", "os.listdir", "os.scandir"):
        opened.append(arguments[0])


@pytest.fixture(scope="module", autouse=True)
def hooked():
    sys.addaudithook(note_open)


async def files_opened_by_end(child):
    global opened
    opened = []
    try:
        await child.end()
        return opened
    finally:
        opened = None


@pytest.mark.parametrize("others", [0, 20])
async def test_the_end_of_a_program_that_left_nobody_opens_a_handful_of_files(launch, others):
    """However many programs run and however many processes there are."""
    for number in range(others):
        await launch("sleep 600 & sleep 600", run_id=f"other-{number}")
    child = await launch("echo hello")
    assert await all_lines(child) == [b"hello"]
    await child.wait()
    assert len(await files_opened_by_end(child)) <= HANDFUL


async def test_a_running_program_is_ended_without_a_look_at_everybody(launch):
    for number in range(10):
        await launch("sleep 600 & sleep 600", run_id=f"other-{number}")
    child = await launch("echo ready; exec sleep 600")
    assert await anext(child.lines()) == b"ready"
    found = await files_opened_by_end(child)
    assert "/proc" not in found
    assert len(found) <= 5 * HANDFUL


async def test_orphans_are_found_though_the_loop_is_not_in_the_main_thread(launch, workspace):
    """The kernel gives orphans to the main thread, whichever thread started the program."""
    ended = threading.Event()

    async def live() -> None:
        script = daemon(workspace, "env -i PATH=$PATH setsid -f")
        child = await launch(f"{script} </dev/null >/dev/null 2>&1; exit 0")
        left = await until(lambda: daemon_of(workspace))
        await child.end()
        assert not is_in_table(left)
        ended.set()

    thread = threading.Thread(target=anyio.run, args=[live])
    thread.start()
    while thread.is_alive():
        await anyio.sleep(0.01)
    assert ended.is_set()


UNPREPARED = textwrap.dedent("""
    import os, sys, anyio
    from pathlib import Path
    from sortie.process.child import start
    from tests.process.scene import daemon, daemon_of, is_running, until

    async def main(place):
        fd = os.open(place, os.O_RDONLY)
        script = daemon(place, "env -i PATH=$PATH", "cd /;")
        argv = ["sh", "-c", f"({script} </dev/null >/dev/null 2>&1 &); exit 0"]
        child = await start(argv, cwd_fd=fd, env=os.environ, run_id="r", workspace=place)
        left = await until(lambda: daemon_of(place))
        await child.end()
        print(is_running(left))

    anyio.run(main, Path(sys.argv[1]))
""")


def test_where_orphans_do_not_come_to_us_the_whole_table_is_searched(workspace):
    command = [sys.executable, "-c", UNPREPARED, str(workspace)]
    shown = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
