import os
import subprocess
import threading

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sortie.process.identity import mark_of
from sortie.process.process_table import Process, ProcessTree, look_up, snapshot, tree_of


def process(pid: int, ppid: int, sid: int = 0, start_ticks: int = 1, state: str = "S", threads: int = 1) -> Process:
    return Process(pid, ppid, sid or pid, start_ticks, state, threads)


def table(*processes: Process) -> dict[int, Process]:
    return {p.pid: p for p in processes}


def test_the_snapshot_knows_us_and_our_parent():
    found = snapshot()
    assert found[os.getpid()].ppid == os.getppid()
    assert found[os.getpid()].sid == os.getsid(0)
    assert not found[os.getpid()].ended
    assert os.getppid() in found


def test_threads_are_counted_and_are_no_processes():
    hold = threading.Event()
    thread = threading.Thread(target=hold.wait)
    thread.start()
    try:
        assert thread.native_id not in snapshot()
        assert snapshot()[os.getpid()].threads >= 2
    finally:
        hold.set()
        thread.join()


def test_a_zombie_has_ended_but_not_while_it_has_threads():
    assert process(5, 1, state="Z").ended
    assert not process(5, 1, state="Z", threads=2).ended


def test_nobody_has_a_number_that_does_not_exist():
    assert look_up(2**22 + 1) is None


def test_descendants_and_sessions_belong_to_the_tree():
    everybody = table(
        process(1, 0),
        process(10, 1),
        process(11, 10, sid=10),
        process(12, 11),
        process(13, 1, sid=12),  # its parents died, its session leader is one of us
        process(20, 1),
        process(21, 20, sid=20),
    )
    assert set(tree_of(everybody, [everybody[10]])) == {10, 11, 12, 13}


@st.composite
def tables(draw):
    """A tree of processes, where some lead sessions and the others are in their parent's."""
    born = {1: process(1, 0)}
    for pid in range(2, draw(st.integers(2, 25)) + 1):
        parent = born[draw(st.integers(1, pid - 1))]
        leads = draw(st.booleans())
        born[pid] = process(pid, parent.pid, sid=pid if leads else parent.sid)
    return born


@given(tables(), st.data())
def test_a_tree_is_closed_and_holds_only_descendants(born, data):
    root = born[data.draw(st.integers(2, max(born)))]
    found = tree_of(born, [root])

    def descends(pid: int) -> bool:
        return pid == root.pid or (pid in born and pid != 1 and descends(born[pid].ppid))

    assert set(found) == {pid for pid in born if descends(pid)}


def test_kin_remembers_who_lost_the_parents_but_not_who_took_the_number():
    tree = ProcessTree()
    leader, child, grandchild = process(10, 1), process(11, 10), process(12, 11)
    assert {p.pid for p in tree.living(table(leader, child, grandchild), [leader])} == {10, 11, 12}
    orphan = process(12, 1)
    stranger = process(11, 1, start_ticks=99)
    assert {p.pid for p in tree.living(table(leader, stranger, orphan), [leader])} == {10, 12}
    dying = process(12, 1, state="Z")
    assert tree.living(table(leader, dying), [leader]) == [leader]


def test_a_mark_is_read_from_the_environment_a_process_started_with():
    env = {"OTHER_MARK": "wrong", "MARK": "a=b c", "MARKED": "wrong"}
    script = ["/bin/sh", "-c", "echo ready; read line"]
    with subprocess.Popen(script, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        marks = [mark_of(process.pid, name) for name in ("MARK", "NO_SUCH_MARK")]
    assert marks == ["a=b c", ""]
    assert mark_of(process.pid, "MARK") == ""


@given(tables(), st.data())
def test_dead_parents_do_not_hide_who_is_in_a_session_of_the_tree(born, data):
    root = born[data.draw(st.integers(2, max(born)))]
    orphaned = {pid: msgspec.structs.replace(p, ppid=1) for pid, p in born.items()}
    assert {p.pid for p in born.values() if p.sid == root.pid} <= set(tree_of(orphaned, [root]))
