"""One call of git: it gets none of our secrets, runs nothing of the repository's, and ends."""

import os
import signal
import time
from pathlib import Path

import pytest

from sortie.errors import SortieError
from sortie.peers.turns.git import GitError, git

from .repository import Repository


@pytest.fixture
def repository(tmp_path):
    found = Repository(tmp_path / "repo")
    found.write("a", "1")
    found.commit()
    return found


def env_of(repository):
    return {"GIT_DIR": str(repository.root / ".git"), "GIT_WORK_TREE": str(repository.root)}


def waiting(repository, command):
    """Make git wait for this command, by what an agent can configure, and run nothing else."""
    repository.sh(
        f"git config diff.slow.textconv {command!r}; echo '* diff=slow' > .git/info/attributes; echo 2 > a"
    )


def test_none_of_our_secrets_reach_what_the_repository_makes_git_run(repository, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    waiting(repository, "env >&2; false")
    with pytest.raises(GitError):
        git(repository.root, "diff", "--textconv", env=env_of(repository))
    repository.write("seen", "")
    waiting(repository, f"env > {repository.root}/seen; cat")
    git(repository.root, "diff", "--textconv", env=env_of(repository))
    seen = dict(line.split("=", 1) for line in repository.read("seen").splitlines() if "=" in line)
    assert "API_KEY" not in seen
    assert seen["GIT_DIR"] == str(repository.root / ".git")
    assert seen["HOME"] == "/nonexistent"
    assert seen["GIT_TERMINAL_PROMPT"] == "0"


def test_no_hook_and_no_monitor_is_run(repository):
    for name in ("post-index-change", "reference-transaction", "monitor"):
        repository.write(f".git/hooks/{name}", f"#!/bin/sh\necho ran >> {repository.root}/ran\n").chmod(0o755)
    repository.sh(f"git config core.fsmonitor {repository.root}/.git/hooks/monitor")
    head = repository.sh("git rev-parse HEAD")
    (repository.root / "ran").unlink(missing_ok=True)
    git(repository.root, "update-ref", "refs/sortie/x", head, env=env_of(repository))
    git(repository.root, "update-index", "--refresh", env=env_of(repository))
    git(repository.root, "status", env=env_of(repository))
    assert not (repository.root / "ran").exists()


def test_what_takes_too_long_is_ended_with_everything_it_started(repository):
    """The time is real, and short: what matters is that it comes back at all, and that nothing goes on."""
    waiting(repository, f"echo $$ > {repository.root}/pid; sleep 600; cat")
    with pytest.raises(GitError, match=r"git diff did not end within 0\.5 seconds") as raised:
        git(repository.root, "diff", "--textconv", env=env_of(repository), seconds=0.5)
    assert raised.value.status is None
    assert is_gone(int(repository.read("pid")))


def test_a_fifo_in_place_of_a_file_does_not_hold_us(repository):
    os.mkfifo(repository.root / ".gitignore")
    with pytest.raises(GitError, match="did not end"):
        git(repository.root, "status", env=env_of(repository), seconds=0.5)


def test_too_much_output_is_cut_off(repository):
    oid = git(repository.root, "hash-object", "-w", "--stdin", env=env_of(repository), given=b"x" * (3 << 20))
    with pytest.raises(GitError, match="says more than 1 MiB"):
        git(repository.root, "cat-file", "blob", oid.decode().strip(), env=env_of(repository), most=1 << 20)


def test_who_holds_the_output_after_git_has_ended_is_not_waited_for(repository):
    waiting(repository, "cat")
    repository.sh("git config diff.slow.command 'setsid sleep 600 & echo $! > pid; echo said; true'")
    assert git(repository.root, "diff", env=env_of(repository), seconds=30) == b"said\n"
    # It has left our group, so it is not ours to end.
    os.kill(int(repository.read("pid")), signal.SIGKILL)


def test_input_and_output_of_any_size(repository):
    names = b"".join(b"%d\n" % number for number in range(300_000))
    given = b"blob\ndata %d\n" % len(names) + names
    git(repository.root, "fast-import", "--quiet", env=env_of(repository), given=given)
    oid = git(repository.root, "hash-object", "-w", "--stdin", env=env_of(repository), given=names)
    assert git(repository.root, "cat-file", "blob", oid.decode().strip(), env=env_of(repository)) == names


def test_what_git_says_is_told_in_one_line_without_control_characters(repository):
    with pytest.raises(GitError) as raised:
        git(repository.root, "rev-parse", "--verify", "\x1b[31mred\n", env=env_of(repository))
    assert raised.value.status == 128
    assert raised.value.message.isprintable()


def test_a_program_in_the_checkout_is_not_taken_for_git(repository, monkeypatch):
    repository.write("git", "#!/bin/sh\necho fooled\n").chmod(0o755)
    monkeypatch.chdir(repository.root)
    monkeypatch.setenv("PATH", f".::bin:{os.environ['PATH']}")
    assert b"git version" in git(repository.root, "version", env={})
    monkeypatch.setenv("PATH", ".:")
    with pytest.raises(SortieError, match="git was not found"):
        git(repository.root, "version", env={})


def test_a_directory_that_is_gone(tmp_path):
    with pytest.raises(GitError, match="could not be started"):
        git(tmp_path / "gone", "version", env={})


def is_gone(pid):
    """Until the kernel has taken it away; the time limit of the test is the end of our patience."""
    while Path(f"/proc/{pid}/stat").exists():
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
        if state in "ZX":
            return True
        time.sleep(0.01)
    return True
