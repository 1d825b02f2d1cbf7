"""An agent whose conduct follows from its issue and from what it did before, whoever was killed meanwhile.

What it must remember lies outside the workspace, in the directory CHAOS_DIARY: `diary` has a line for each start
and end of a turn, `done/ISSUE` counts completed turns, `locks/ISSUE` is locked for as long as the agent or anything
that it started lives. A second agent that finds the lock taken writes VIOLATION.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

DIARY = os.environ["CHAOS_DIARY"]
ISSUE = os.environ["SORTIE_ISSUE_IDENTIFIER"]
WORDS = f"{ISSUE} {os.environ['SORTIE_RUN_ID']} {os.environ['SORTIE_TURN']} {os.getpid()}"


def note(what: str) -> None:
    diary = os.open(f"{DIARY}/diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(diary, f"{time.monotonic():.6f} {what} {WORDS}\n".encode())
    os.close(diary)


def take_the_lock() -> None:
    lock = os.open(f"{DIARY}/locks/{ISSUE}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("VIOLATION")
        sys.exit(9)
    os.set_inheritable(lock, True)


def turns_done() -> int:
    try:
        with open(f"{DIARY}/done/{ISSUE}") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def count_turn(number: int) -> None:
    with open(f"{DIARY}/done/{ISSUE}.new", "w") as file:
        file.write(str(number))
    os.replace(f"{DIARY}/done/{ISSUE}.new", f"{DIARY}/done/{ISSUE}")


def tell(token: str, reason: str = f"reason: {ISSUE} has its reasons\n") -> None:
    os.makedirs(".sortie", exist_ok=True)
    with open(".sortie/status.new", "w") as file:
        file.write(f"{token}\n{reason}")
    os.replace(".sortie/status.new", ".sortie/status")


def work(conduct: str, turn: int, prompt: str) -> int:
    """One turn, the `turn`-th of this issue; the answer is the exit code."""
    name, _, number = conduct.partition("-")
    if name in ("family", "silent", "turns"):
        os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ, setsid=True)
    match name:
        case "review":
            tell("needs-human-review")
        case "turns" if turn >= int(number):
            tell("needs-human-review")
        case "blocked":
            tell("blocked")
        case "asks" if "A person answered your question:" in prompt:
            note(f"heard-{prompt.count('Use port 8080.')}")
            while os.path.exists(f"{DIARY}/hold"):
                time.sleep(0.01)
            tell("needs-human-review")
        case "asks":
            tell("blocked")
        case "terse":
            print("The password is missing.\nI cannot go on.")
            tell("blocked", reason="")
        case "stumbles" if turn == 1:
            return 3
        case "stumbles":
            tell("needs-human-review")
        case "family":
            time.sleep(float(number) / 1000)
            tell("needs-human-review")
        case "slow" | "stubborn" if turn == 1:
            if name == "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            count_turn(turn)
            note("waits")
            time.sleep(60)
        case "slow" | "stubborn":
            tell("needs-human-review")
    return 0


def main() -> int:
    take_the_lock()
    note("start")
    prompt = sys.stdin.read()
    turn = turns_done() + 1
    # The issue is called after its conduct, with a number that tells it from others of its kind.
    code = work(ISSUE.split("_")[0], turn, prompt)
    count_turn(turn)
    note("end")
    return code


if __name__ == "__main__":
    sys.exit(main())
