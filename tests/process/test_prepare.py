import resource
import subprocess
import sys


def run_prepared(code: str, before: str = "") -> str:
    """In a process of its own, because `prepare` changes the one it is called in."""
    script = f"{before}\nfrom sortie.process.spawn import prepare\nprepare()\n{code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_the_soft_limit_of_open_files_becomes_the_hard_one():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert run_prepared("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))") == f"({hard}, {hard})"


def test_orphans_come_to_us():
    code = "import ctypes; n = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(n)); print(n.value)"
    assert run_prepared(code) == "1"


def test_asyncio_children_need_no_thread_each():
    code = """
import anyio, threading
async def main():
    async with await anyio.open_process(["cat"]):
        print(threading.active_count())
anyio.run(main)
"""
    assert run_prepared(code) == "1"


def test_the_exit_of_children_is_kept_though_our_parent_had_it_ignored():
    code = """
import os
pid = os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", "exit 3")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run_prepared(code, before="import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)") == "3"
