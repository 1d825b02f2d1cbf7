"""Old archives are deleted, and what interrupted ones left; nothing else is, and nothing stops it."""

import os

from sortie.workspace.removal import prune

from .test_workspace_archive import archive_and_remove, remove

OLD = "A-1-20260102T030405Z"
OLD_TIME = 1767323045.0
DAY = 86400


def test_an_archive_just_made_is_pruned_when_its_time_has_come(root, archives, workspace):
    archive = remove(root, archives)
    made = archive.stat().st_mtime
    assert prune(archives, 1, made) == []
    assert prune(archives, 1, made + 2 * DAY) == [archive]
    assert os.listdir(archives) == []


def test_pruning_removes_old_archives(archives):
    archives.mkdir()
    old = [f"{OLD}.tar.gz", f"{OLD}-2.tar.gz"]
    kept = ["A-1-20260103T030405Z.tar.gz", "backup.tar.gz", "notes.txt"]
    for name in old + kept:
        (archives / name).touch()
    now = OLD_TIME + 30 * DAY + 1
    assert prune(archives, 30, now) == sorted(archives / name for name in old)
    assert sorted(os.listdir(archives)) == sorted(kept)
    assert prune(archives, 30, now) == []


def test_pruning_passes_over_what_it_cannot_delete(archives):
    """A directory or a link with the name of an archive is none, and keeps no other from being pruned."""
    for name in ("A", "C"):
        (archives / f"{name}-20260102T030405Z.tar.gz").mkdir(parents=True)
    (archives / f".{OLD}.tar.gz.0123456789abcdef.tmp").mkdir()
    (archives / f"{OLD}-2.tar.gz").symlink_to("/nowhere")
    (archives / f"{OLD}.tar.gz").touch()
    assert prune(archives, 30, OLD_TIME + 31 * DAY) == [archives / f"{OLD}.tar.gz"]
    assert len(os.listdir(archives)) == 4


def test_the_remains_of_an_interrupted_archive_go_at_once(root, archives, workspace):
    """However young they are; one that is being written stays, whoever writes it."""
    (workspace / "file").touch()
    archives.mkdir()
    left = archives / f".{OLD}.tar.gz.0123456789abcdef.tmp"
    pruned = []

    def prune_meanwhile() -> None:
        left.touch()
        pruned.extend(prune(archives, 30, OLD_TIME))

    assert archive_and_remove(root, "A-1", archives, "A-1", prune_meanwhile)
    assert set(pruned) == {left}
    assert len(os.listdir(archives)) == 1


def test_an_archive_of_exactly_the_age_is_kept(archives):
    archives.mkdir()
    (archives / f"{OLD}.tar.gz").touch()
    assert prune(archives, 30, OLD_TIME + 30 * DAY) == []


def test_pruning_without_a_directory_does_nothing(archives):
    assert prune(archives, 30, OLD_TIME) == []
