"""A process that is killed in the middle of taking back leaves nothing that the next one does not complete."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import recall, take_before

from .repository import LOG, shared_repository

FILES = 300
WORKER = """
import sys
from pathlib import Path
from sortie.peers.place import place_at
from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import recall

place = place_at(Path(sys.argv[1]))
print("begun", flush=True)
revert(place, look_back(place, "Alice", recall(place, 1, "before")), at=1.0)
"""


@pytest.mark.parametrize("back", [0, 1, FILES // 2, FILES])
def test_whenever_it_is_killed_the_next_one_completes_it(tmp_path, back):
    """LOG-04, LOG-05: killed once so many files are back."""
    repository = shared_repository(tmp_path / "repo")
    for number in range(FILES):
        repository.write(f"bob/many/{number}", f"{number}\n")
    before = take_before(repository.place, 1)
    many = repository.root / "bob/many"
    repository.sh("rm -r bob/many; echo mine > bob/b.py; echo 2 > alice/a.py")
    repository.write("WORKLOG.md", LOG.replace("It is fast.", "It is slow."))
    with subprocess.Popen([sys.executable, "-c", WORKER, repository.root], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        while worker.poll() is None and (not many.exists() or len(os.listdir(many)) < back):
            time.sleep(0.001)
        worker.send_signal(signal.SIGKILL)
    again, after = (recall(repository.place, 1, when) for when in ("before", "after"))
    assert again is not None
    done = revert(repository.place, look_back(repository.place, "Alice", again, after), at=2.0)
    assert done.problems == ()
    assert {path.name: path.read_text() for path in many.iterdir()} == {str(n): f"{n}\n" for n in range(FILES)}
    assert (repository.read("bob/b.py"), repository.read("alice/a.py")) == ("b = 1\n", "2\n")
    assert repository.read("WORKLOG.md") == LOG
    assert repository.sh(f"git show {done.ref}:bob/b.py") == "mine"
    assert repository.sh(f"git rev-parse {done.ref}~1") == before.commit
