"""Nothing outlives us: orphans end with the program that left them, in doubt with the last that could have."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from sortie.process.identity import limit_marked, limit_marker, limit_marker_of
from sortie.process.orphans import orphan_tracker

from .scene import daemon, daemon_of, is_in_table, is_running, ticks_now, until

ROOT = Path(__file__).parents[2]

# Everything by which a process can be recognised is gone: environment, directory, session, open files.
HIDDEN = "env -i PATH=$PATH setsid -f"
CLOSED = "exec </dev/null >/dev/null 2>&1; cd /;"
UNMARKED = f"""{sys.executable} -c '
import os, resource, sys
resource.setrlimit(resource.RLIMIT_RTTIME, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.execvp(sys.argv[1], sys.argv[1:])' """


@pytest.fixture(autouse=True)
def sole_parent():
    with orphan_tracker.sole_parent():
        yield


@pytest.fixture
async def places(tmp_path):
    """Directories for the daemons' numbers; the daemons are ended after the test, whatever became of it."""
    made = [tmp_path / name for name in "ab"]
    for place in made:
        place.mkdir()
    yield made
    await orphan_tracker.end_all(grace=0)


def leaves(place, before="", does=CLOSED):
    return daemon(place, f"{before}{HIDDEN}", does)


async def test_an_orphan_without_any_mark_ends_with_the_program_that_left_it(launch, places):
    """Also while another program runs, whose own orphan is spared: the marker in the limits tells them apart."""
    theirs = await launch(f"{leaves(places[1])}; sleep 600", run_id="run-2")
    ours = await launch(f"{leaves(places[0])}; exit 0")
    orphan, other = await until(lambda: all(found := [daemon_of(place) for place in places]) and found)
    await ours.end()
    assert not is_in_table(orphan)
    assert is_running(other)
    await theirs.end()
    assert not is_in_table(other)


async def test_an_orphan_without_a_limit_marker_ends_with_the_only_program_that_could_own_it(launch, places):
    child = await launch(f"{leaves(places[0], UNMARKED)}; exit 0")
    orphan = await until(lambda: daemon_of(places[0]))
    assert limit_marker_of(orphan.pid) == 0
    await child.end()
    assert not is_in_table(orphan)


async def test_an_orphan_in_doubt_is_named_and_ends_with_the_last_program_that_could_own_it(launch, places):
    """A program that started after it was born does not keep it."""
    elder = await launch("sleep 600", run_id="run-2")
    child = await launch(f"{leaves(places[0], UNMARKED)}; exit 0")
    orphan = await until(lambda: daemon_of(places[0]))
    await child.end()
    assert is_running(orphan)
    looked = await orphan_tracker.check()
    assert looked.ended == []
    assert [one.pid for one in looked.in_doubt] == [orphan.pid]
    assert "daemon.pid" in looked.in_doubt[0].command
    await until(lambda: ticks_now() > orphan.start_ticks)
    younger = await launch("sleep 600", run_id="run-3")
    await elder.end()
    assert not is_in_table(orphan)
    assert is_running(younger.identity)


async def test_an_orphan_in_doubt_between_programs_that_end_together_ends_with_them(launch, places):
    children = [await launch("exec sleep 600", run_id=f"run-{number}") for number in (1, 2)]
    children.append(await launch(f"{leaves(places[0], UNMARKED)}; exit 0"))
    orphan = await until(lambda: daemon_of(places[0]))
    async with anyio.create_task_group() as tasks:
        for child in children:
            tasks.start_soon(child.end)
    assert not is_in_table(orphan)


async def test_an_orphan_that_answers_a_request_with_its_successor_is_ended_too(launch, places):
    """Each one starts the next as it goes, hidden like itself, until they are killed."""
    (places[0] / "again.sh").write_text(
        f"exec </dev/null >/dev/null 2>&1; cd /\n"
        f"trap '{HIDDEN} sh {places[0]}/again.sh; exit' TERM\n"
        f"echo $$ > {places[0]}/daemon.pid\n"
        "while :; do sleep 600 & wait $!; done\n"
    )
    child = await launch(f"{HIDDEN} sh {places[0]}/again.sh; exit 0")
    first = await until(lambda: daemon_of(places[0]))
    await child.end(grace=0.2)
    looked = await orphan_tracker.check()
    assert (looked.ended, looked.in_doubt) == ([], [])
    assert not is_running(first)
    assert not is_running(daemon_of(places[0]) or first)


async def test_an_orphan_that_comes_when_no_program_is_left_is_ended_at_the_next_look(launch, places):
    await (await launch("exit 0")).end()
    subprocess.run(["sh", "-c", leaves(places[0])], check=True)
    orphan = await until(lambda: daemon_of(places[0]))
    (ended,) = (await orphan_tracker.check()).ended
    assert ended.pid == orphan.pid
    assert not is_in_table(orphan)


async def test_at_the_end_everybody_goes_programs_too(launch, places):
    child = await launch(f"{leaves(places[0], UNMARKED)}; exec env -i sleep 600")
    orphan = await until(lambda: daemon_of(places[0]))
    await orphan_tracker.end_all(grace=10)
    assert not is_in_table(orphan)
    assert not is_running(child.identity)
    assert (await child.end()).signal == 15


EMBEDDER = textwrap.dedent("""
    import os, subprocess, sys, anyio
    from contextlib import nullcontext
    from pathlib import Path
    from sortie.process.child import start
    from sortie.process.identity import identify
    from sortie.process.orphans import orphan_tracker
    from sortie.process.spawn import prepare
    from tests.process.scene import ticks_now

    async def main(sole):
        prepare()
        with orphan_tracker.sole_parent() if sole else nullcontext():
            elder = subprocess.Popen(["sleep", "600"], start_new_session=True)
            while ticks_now() <= identify(elder.pid).start_ticks:
                await anyio.sleep(0.001)
            place = Path(sys.argv[2])
            fd = os.open(place, os.O_RDONLY)
            child = await start(["sh", "-c", "exit 0"], cwd_fd=fd, env={}, run_id="r", workspace=place)
            younger = subprocess.Popen(["sleep", "600"], start_new_session=True)
            await child.end()
            looked = await orphan_tracker.check()
            await orphan_tracker.end_all()
            print(elder.poll(), younger.poll() is None, len(looked.ended) + len(looked.in_doubt))
        elder.kill()
        younger.kill()

    anyio.run(main, sys.argv[1] == "sole")
""")


def embedder(mode, workspace, *before):
    command = [*before, sys.executable, "-c", EMBEDDER, mode, str(workspace)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return shown.stdout.strip()


@pytest.mark.parametrize(("mode", "expected"), [("embedded", "None True 0"), ("sole", "None False 0")])
def test_children_that_are_not_ours_are_spared(mode, expected, workspace):
    """Those of a program that embeds us, and those that were there before the first program."""
    assert embedder(mode, workspace) == expected


def test_as_init_of_a_container_nobody_is_ended_who_may_be_a_strangers(workspace):
    """There everybody's orphans become our children; the kernel ends them with us."""
    init = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*init, "true"], capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: the init of a container, because namespaces are not allowed")
    assert embedder("sole", workspace, *init) == "None True 0"


def test_a_limit_marker_is_carried_only_by_what_starts_meanwhile():
    number = limit_marker("store", "run")
    with limit_marked(number):
        marked = subprocess.Popen(["env", "-i", "sleep", "600"])
    plain = subprocess.Popen(["sleep", "600"])
    assert (limit_marker_of(marked.pid), limit_marker_of(plain.pid), limit_marker_of(os.getpid())) == (number, 0, 0)
    for process in (marked, plain):
        process.kill()
        process.wait()
    assert limit_marker_of(plain.pid) == 0


def test_limit_markers_of_stores_and_runs_differ():
    stores, runs = [f"store-{n}" for n in range(30)], [f"run-{n}" for n in range(30)]
    assert len({limit_marker(store, run) for store in stores for run in runs}) == 900
