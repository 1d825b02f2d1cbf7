import os
import signal
import subprocess
import sys
import textwrap

import msgspec
import pytest

from sortie.process.identity import RUN_MARK, STORE_MARK, identify, limit_marked, limit_marker
from sortie.process.orphans import orphan_tracker
from sortie.process.sweep import EndedProcess, end_orphans

from .scene import daemon, daemon_of, is_running, until


@pytest.fixture
async def start_process():
    """Real processes in sessions of their own, ended after the test."""
    started = []

    def start_process(script, **environment):
        env = {"PATH": os.environ["PATH"], **environment}
        process = subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)
        started.append(process)
        return identify(process.pid)

    yield start_process
    for process in started:
        process.kill()
        process.wait()
    await orphan_tracker.check()


ORCHESTRATOR = textwrap.dedent("""
    import os, subprocess, sys, time
    for number in range(3):
        env = dict(os.environ, SORTIE_STORE_ID=sys.argv[1], SORTIE_RUN_ID=f"run-{number}")
        script = "setsid sleep 600 & echo $$ $!; trap '' TERM; while :; do sleep 0.05; done"
        subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)
    time.sleep(600)
""")


async def test_the_children_of_a_killed_orchestrator_are_ended(start_process, tmp_path):
    stranger = start_process("exec sleep 600", **{STORE_MARK: "another-store", RUN_MARK: "run-0"})
    store_id = f"store-{tmp_path.name}-{os.getpid()}"
    orchestrator = subprocess.Popen([sys.executable, "-c", ORCHESTRATOR, store_id], stdout=subprocess.PIPE)
    with orchestrator:
        assert orchestrator.stdout is not None
        pids = [int(pid) for _ in range(3) for pid in orchestrator.stdout.readline().split()]
        orphans = [identify(pid) for pid in pids]
        orchestrator.send_signal(signal.SIGKILL)
    ended = await end_orphans(store_id, known=[], grace=0.2)
    assert {one.run_id for one in ended if one.pid in pids} == {"run-0", "run-1", "run-2"}
    assert not [orphan for orphan in orphans if is_running(orphan)]
    assert is_running(stranger)


async def test_a_recorded_process_is_ended_with_its_session_though_it_has_no_mark(start_process, tmp_path):
    known = start_process(f"({daemon(tmp_path)} &) ; sleep 600")
    left = await until(lambda: daemon_of(tmp_path))
    ended = await end_orphans("no-such-store", known=[known], grace=10)
    assert EndedProcess(known.pid, "") in ended
    assert not is_running(known)
    assert not is_running(left)


async def test_an_orphan_is_found_by_its_limit_marker_though_it_has_no_mark(start_process, tmp_path):
    """Nothing outlives us: neither environment, session nor directory tell whose it is."""
    store_id = f"store-{tmp_path.name}-{os.getpid()}"
    with limit_marked(limit_marker(store_id, "run-1")):
        orphan = start_process("cd /; exec env -i sleep 600")
    with limit_marked(limit_marker("another-store", "run-1")):
        stranger = start_process("exec sleep 600")
    assert [one.pid for one in await end_orphans(store_id, known=[], grace=10)] == [orphan.pid]
    assert not is_running(orphan)
    assert is_running(stranger)


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "another-boot"}])
async def test_a_stranger_with_a_recorded_number_is_spared(start_process, change):
    stranger = start_process("exec sleep 600")
    falsified = msgspec.structs.replace(stranger, **change)
    assert await end_orphans("no-such-store", known=[falsified], grace=0) == []
    assert is_running(stranger)


async def test_nothing_left_behind_is_nothing_to_do():
    assert await end_orphans("no-such-store", known=[]) == []


SWEEPER = textwrap.dedent("""
    import sys, anyio
    from sortie.process.identity import identify
    from sortie.process.sweep import end_orphans
    known = [identify(int(pid)) for pid in sys.argv[2:]]
    for one in anyio.run(end_orphans, sys.argv[1], known):
        print(one.pid, one.run_id, flush=True)
    print("done", flush=True)
""")


def test_the_sweep_spares_itself_and_its_ancestors_but_not_its_marked_siblings(tmp_path):
    store_id = f"store-{tmp_path.name}-{os.getpid()}"
    (tmp_path / "sweeper.py").write_text(SWEEPER)
    script = (
        f'SORTIE_RUN_ID=sibling sleep 600 & echo $!; "{sys.executable}" sweeper.py {store_id} $$; echo survived'
    )
    env = {**os.environ, STORE_MARK: store_id, RUN_MARK: "mine"}
    shown = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=True,
    )
    sibling, *rest = shown.stdout.splitlines()
    assert rest == [f"{sibling} sibling", "done", "survived"]
