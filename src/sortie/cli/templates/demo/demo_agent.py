"""The agent of `sortie demo`: plays six coding agents with different manners. A real one does real work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ISSUE = os.environ["SORTIE_ISSUE_IDENTIFIER"]
ATTEMPT = int(os.environ["SORTIE_ATTEMPT"])
TURN = int(os.environ["SORTIE_TURN"])


def work(*steps: str) -> None:
    for step in steps:
        print(step, flush=True)
        time.sleep(0.7)


def signal(token: str, reason: str) -> None:
    """All that an agent needs to know of Sortie: this file."""
    Path(".sortie").mkdir(exist_ok=True)
    Path(".sortie/status").write_text(f"{token}\nreason: {reason}\n")


def main() -> None:
    sys.stdin.read()  # the prompt
    work(f"reading {ISSUE}")
    match ISSUE:
        case "DEMO-1" if TURN == 1:
            work("writing the endpoint", "no time for tests in this turn")
        case "DEMO-1":
            work("writing the tests", "running the tests: all pass")
            signal("needs-human-review", "The endpoint is at /health, with tests.")
        case "DEMO-2":
            work("looking for the password store")
            signal("blocked", "Nobody gave me access to the password store.")
        case "DEMO-3" if ATTEMPT == 1:
            work("running the upload test")
            sys.exit("Segmentation fault in libupload.so")
        case "DEMO-3":
            work("trying another version of libupload", "running the upload test: passes")
            signal("needs-human-review", "libupload 2.1 crashes; 2.0 does not.")
        case "DEMO-5":
            work(f"started the service in the background, pid {start_daemon()}", "asking it: it answers")
            signal("needs-human-review", "It answers on port 8080.")
        case _:
            work("writing", "reading it once more")
            signal("needs-human-review", "It is written.")


def start_daemon() -> int:
    """In a session of its own and never ended, as careless tools do."""
    daemon = subprocess.Popen(
        [sys.executable, "-I", "-c", "import time; time.sleep(600)", "sortie-demo-daemon"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    Path("daemon.pid").write_text(str(daemon.pid))
    return daemon.pid


main()
