"""Putting a plan away: all of it is in the archive, verified, before anything goes; killed anywhere, it goes on."""

from __future__ import annotations

import json
import os
import random
import shutil

import pytest

from sortie.errors import SortieError
from sortie.plans.archiving import archive_plan, remove_plan
from sortie.plans.plan import Plan, Task

from ..own_process import in_own_process
from .results_scene import contents, killed_at

TASKS = ("one", "two")


class Root:
    """What a run leaves, small."""

    def __init__(self, directory):
        self.path = directory / "work"
        self.plan = Plan(
            name="demo",
            path=directory / "plan.yaml",
            root=self.path,
            tasks=tuple(Task(name=name, objective="x") for name in TASKS),
        )
        for name in TASKS:
            folder = self.path / name
            for inner in ("inbox", "outbox/data", "workspace", ".sortie"):
                (folder / inner).mkdir(parents=True)
            (folder / "inbox/instructions.md").write_text(name)
            (folder / "outbox/data/x.csv").write_text(name * 1000)
            (folder / ".sortie/mcp.json").write_text("token")
            (folder / "inbox").chmod(0o555)
        (self.path / ".sortie.db").write_bytes(b"store")
        (self.path / ".sortie.db-wal").write_bytes(b"log")
        (self.path / ".sortie.db-shm").write_bytes(b"memory")
        (self.path / ".sortie.db.lock").touch()
        (self.path / "messages").mkdir()
        (self.path / "messages/one_to_two_001.json").write_text("{}")
        (self.path / "ESCALATIONS.md").write_text("help")
        (self.path / "consolidated").mkdir()
        (self.path / "consolidated/summary.md").write_text("results")
        (self.path / "mine.txt").write_text("not of the plan")
        self.before = {path: text for path, text in contents(self.path).items() if self.is_archived(path)}

    def is_archived(self, path):
        stays = (".sortie.db-shm", ".sortie.db.lock", "mine.txt", "consolidated/summary.md")
        return path not in stays and not path.endswith("mcp.json")

    def archive(self):
        return archive_plan(self.plan, TASKS, {})

    def archives(self):
        return sorted(path for path in (self.path / "_archive").iterdir() if not path.name.startswith("."))

    def archived(self, folder):
        ours = ("files.jsonl", "archive.json", "NOT-ARCHIVED.txt")
        return {path: text for path, text in contents(folder).items() if path not in ours}

    def left(self):
        return {path for path in contents(self.path) if not path.startswith("_archive/")}


OTHERS = {".sortie.db.lock", "mine.txt", "consolidated/summary.md"}


@pytest.fixture
def root(tmp_path):
    return Root(tmp_path)


def test_everything_of_the_run_is_in_the_archive_and_nothing_else_is_touched(root):
    """TBX-16: `_archive/<run-id>/<agent>`; BOX-11. What may hold a key of a session is not archived."""
    archived = root.archive()
    assert archived.folder in root.archives()
    assert root.archived(archived.folder) == root.before
    assert archived.files == len(root.before)
    assert root.left() == OTHERS
    assert archived.folder.stat().st_mode & 0o077 == 0
    about = json.loads((archived.folder / "archive.json").read_text())
    assert (about["plan"], about["files"]) == ("demo", len(root.before))


def test_a_second_call_finds_nothing_to_do(root):
    """TBX-16: idempotent."""
    root.archive()
    before = contents(root.path)
    assert root.archive().folder is None
    assert contents(root.path) == before
    assert len(root.archives()) == 1


def test_no_archive_is_ever_overwritten(root, tmp_path):
    """TBX-16: a suffix for one of the same second."""
    first = root.archive()
    kept = contents(first.folder)
    for number in range(3):
        again = Root(tmp_path / str(number))
        shutil.copytree(root.path / "_archive", again.path / "_archive")
        again.archive()
        assert len(again.archives()) == 2
        assert contents(again.path / "_archive" / first.folder.name) == kept


def test_links_and_specials_are_listed_and_stay(root):
    """TBX-16: never follows links out of the root, never preserves one; TBX-08."""
    (root.path / "one/workspace/out").symlink_to("/etc")
    os.mkfifo(root.path / "two/outbox/pipe")
    archived = root.archive()
    assert [path for path, _ in archived.not_archived] == ["one/workspace/out", "two/outbox/pipe"]
    assert archived.changed == ()
    page = (archived.folder / "NOT-ARCHIVED.txt").read_text()
    assert page == "one/workspace/out: It is a symbolic link\ntwo/outbox/pipe: It is a FIFO\n"
    assert root.archived(archived.folder) == root.before
    assert (root.path / "one/workspace/out").is_symlink()
    assert (root.path / "two/outbox/pipe").is_fifo()
    assert root.left() == OTHERS
    assert root.archive().folder is None


def test_a_link_in_the_place_of_a_task_folder_is_not_followed(root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (root.path / "one").rename(elsewhere)
    (root.path / "one").symlink_to(elsewhere)
    before = contents(elsewhere)
    archived = root.archive()
    assert archived.not_archived == (("one", "It is a symbolic link"),)
    assert contents(elsewhere) == before


@pytest.mark.parametrize("kind", ["link", "file"])
def test_an_archive_folder_that_is_none_is_refused(root, tmp_path, kind):
    place = root.path / "_archive"
    place.symlink_to(tmp_path) if kind == "link" else place.touch()
    before = contents(root.path)
    with pytest.raises(SortieError, match="is no directory"):
        root.archive()
    assert contents(root.path) == before


def test_without_a_store_nothing_is_the_plans(root):
    """A folder that happens to be named like a task belongs to a person."""
    (root.path / ".sortie.db").unlink()
    assert root.archive().folder is None
    assert remove_plan(root.plan, TASKS) == []
    assert (root.path / "one/inbox/instructions.md").exists()


def test_removal_without_an_archive_has_to_be_asked_for_and_takes_the_same(root):
    """TBX-16: deletion needs an explicit flag."""
    (root.path / "one/workspace/out").symlink_to(root.path / "mine.txt")
    assert set(remove_plan(root.plan, TASKS)) == {
        *TASKS,
        *(".sortie.db", ".sortie.db-wal", "messages", "ESCALATIONS.md"),
    }
    assert root.left() == OTHERS
    assert not (root.path / "_archive").exists()


def test_a_file_that_changes_after_it_was_copied_stays(root):
    """TBX-16: what goes is what is in the archive."""
    changed = root.path / "one/outbox/data/x.csv"

    def interfere(doing):
        if doing.startswith("verifying two"):
            changed.write_text("changed")

    archived = archive_plan(root.plan, TASKS, {}, watch=interfere)
    assert archived.changed == ("one/outbox/data/x.csv",)
    assert changed.read_text() == "changed"
    assert root.archived(archived.folder) == root.before


def test_a_copy_that_is_not_what_was_copied_removes_nothing(root):
    """TBX-16: count and hashes are verified before anything goes."""
    before = contents(root.path)

    def spoil(doing):
        if doing.startswith("verifying"):
            (copy,) = (root.path / "_archive").glob(".*/two/outbox/data/x.csv")
            copy.write_text("spoiled")

    with pytest.raises(SortieError, match="is not what was copied"):
        archive_plan(root.plan, TASKS, {}, watch=spoil)
    assert contents(root.path) == before


def test_a_list_that_is_damaged_stops_the_going_on_and_says_how_to_mend_it(root):
    archived = root.archive()
    (archived.folder / ".removing").touch()
    (archived.folder / "files.jsonl").write_text('{"path": "../x", "version": [1]}\n')
    with pytest.raises(SortieError, match="is damaged"):
        root.archive()


def lost(root):
    """What is neither where it was nor in an archive that has its name."""
    saved = contents(root.path)
    for folder in root.archives() if (root.path / "_archive").is_dir() else ():
        saved |= root.archived(folder)
    return {path for path, text in root.before.items() if saved.get(path) != text}


def assert_is_put_away_once(root):
    (folder,) = root.archives()
    assert root.archived(folder) == root.before
    assert root.left() == OTHERS
    assert not [path for path in (root.path / "_archive").rglob(".*") if path.name.endswith((".new", ".removing"))]


def first_step(directory, happened):
    """The first call of the kernel before which a kill leaves a root to which that has happened."""
    low, high = 1, 20_000
    while low < high:
        middle = (low + high) // 2
        root = Root(directory / f"try{middle}")
        killed_at(middle, root.archive)
        low, high = (low, middle) if happened(root) else (middle + 1, high)
    return low


def has_archive(root):
    return (root.path / "_archive").is_dir() and bool(root.archives())


def has_no_store(root):
    return not (root.path / ".sortie.db").exists()


def is_done(root):
    return has_archive(root) and not (root.archives()[0] / ".removing").exists()


@in_own_process
def test_killed_anywhere_nothing_is_lost_and_the_next_call_finishes_the_job(tmp_path):
    """TBX-16: SIGKILL before calls of the kernel all over, and before each one around the moment at which the
    archive gets its name; then once more to the end."""
    named, done = first_step(tmp_path / "named", has_archive), first_step(tmp_path / "done", is_done)
    assert 100 < named < done
    for step in sorted({*range(1, done, done // 30), *range(named - 4, named + 8), *range(done - 6, done)}):
        root = Root(tmp_path / f"step{step}")
        killed_at(step, root.archive)
        assert lost(root) == set()
        root.archive()
        assert_is_put_away_once(root)


@pytest.mark.parametrize("seed", range(8))
def test_killed_again_and_again_it_is_put_away_once(tmp_path, seed):
    """TBX-16: each call goes on where the last one died."""
    chance, root = random.Random(seed), Root(tmp_path)
    for _ in range(12):
        if killed_at(chance.randint(1, 1_000), root.archive):
            break
        assert lost(root) == set()
    root.archive()
    assert_is_put_away_once(root)


def test_a_run_that_began_anew_after_a_death_keeps_what_it_made(tmp_path):
    """Killed after the store is gone, then run anew: what the new run made is not taken for the old."""
    root = Root(tmp_path / "root")
    killed_at(first_step(tmp_path, has_no_store), root.archive)
    (root.path / ".sortie.db").write_bytes(b"store")
    new = root.path / "one/outbox/data/x.csv"
    new.unlink(missing_ok=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text("one" * 1000)
    archived = root.archive()
    assert len(archived.finished) == 1
    assert root.archived(archived.finished[0]) == root.before
    assert (archived.folder / "one/outbox/data/x.csv").read_text() == "one" * 1000
