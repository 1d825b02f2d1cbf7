"""Changed files are told of at once, with the kernel's help and without."""

from __future__ import annotations

import os
import resource
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sortie.file_watch import POLL_EVERY, FileWatch

LONG_AGO = (1_600_000_000, 1_600_000_000)
DEADLINE = 10.0


def settled(path, text="a"):
    """Written so long ago that its time stamps can be trusted."""
    path.write_text(text)
    os.utime(path, LONG_AGO)
    return path


def test_files_that_stay_the_same_are_not_reported(tmp_path):
    watch = FileWatch([settled(tmp_path / "a"), tmp_path / "missing"])
    assert watch.changed() == set()
    assert watch.changed() == set()


def test_written_replaced_created_and_removed_files_are_reported(tmp_path):
    written, replaced, created, removed, same = (tmp_path / name for name in "wrcds")
    for path in (written, replaced, removed, same):
        settled(path)
    watch = FileWatch([written, replaced, created, removed, same])
    settled(written, "ab")
    os.replace(settled(tmp_path / "new"), replaced)
    settled(created)
    removed.unlink()
    assert watch.changed() == {written, replaced, created, removed}
    assert watch.changed() == set()


def test_a_file_changed_a_moment_ago_is_reported_once_more_because_a_second_change_may_look_the_same(tmp_path):
    path = settled(tmp_path / "a")
    written_at = path.stat().st_mtime_ns
    times = iter([written_at + 1_000_000, written_at + 90_000_000, written_at + 90_000_000])
    watch = FileWatch([path], clock=lambda: next(times))
    assert watch.changed() == {path}
    assert watch.changed() == set()


def test_a_time_stamp_in_the_future_is_not_taken_for_a_moment_ago(tmp_path):
    path = settled(tmp_path / "a")
    watch = FileWatch([path], clock=lambda: 0)
    assert watch.changed() == set()


def test_a_file_behind_a_link_that_is_switched_is_reported(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(settled(tmp_path / "a"))
    watch = FileWatch([link])
    (tmp_path / "next").symlink_to(settled(tmp_path / "b"))
    os.replace(tmp_path / "next", link)
    assert watch.changed() == {link}


class Told:
    """Counts how often a watch told of a change, and waits for the next time."""

    def __init__(self) -> None:
        self.times = 0
        self._told = anyio.Event()

    def __call__(self) -> None:
        self.times += 1
        self._told.set()

    async def again(self, change: Callable[[], object]) -> None:
        self._told = anyio.Event()
        change()
        with anyio.fail_after(DEADLINE):
            await self._told.wait()

    async def by_kernel(self, change: Callable[[], object]) -> None:
        """As fast as only the kernel tells: the loop turns a few times, and no timer is due."""
        before = self.times
        change()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
            if self.times > before:
                return
        raise AssertionError("the kernel did not tell")


@asynccontextmanager
async def watching(*paths: Path) -> AsyncIterator[Told]:
    told = Told()
    async with FileWatch(paths, told):
        await anyio.lowlevel.checkpoint()  # the first look
        yield told


async def test_written_replaced_touched_and_removed_files_are_told_of_at_once(tmp_path):
    path = settled(tmp_path / "file")
    async with watching(path) as told:
        await told.by_kernel(lambda: path.write_text("ab"))
        await told.by_kernel(lambda: settled(tmp_path / "new").replace(path))
        await told.by_kernel(lambda: path.write_text("in place, in the new file"))
        await told.by_kernel(path.touch)
        await told.by_kernel(path.unlink)
        await told.by_kernel(path.touch)


async def test_what_happens_to_other_files_beside_it_is_not_told(tmp_path):
    path = settled(tmp_path / "file")
    async with watching(path) as told:
        for _ in range(3):
            settled(tmp_path / "other").rename(tmp_path / "file.bak")
            path.read_bytes()
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
        assert told.times == 0


async def test_a_file_that_is_being_written_is_told_of_when_it_is_complete(tmp_path):
    path = settled(tmp_path / "file")
    async with watching(path) as told:
        with path.open("w", buffering=1) as file:
            file.write("half\n")
            with pytest.raises(AssertionError, match="the kernel did not tell"):
                await told.by_kernel(lambda: file.write("more\n"))
            await told.by_kernel(file.close)


async def test_a_file_that_stays_open_is_told_of_too(tmp_path):
    path = settled(tmp_path / "file")
    with path.open("r+b", buffering=0) as file:
        async with watching(path) as told:
            await told.again(lambda: file.write(b"anew"))


async def test_thousands_of_changes_are_one(tmp_path):
    path = settled(tmp_path / "file")

    def write_often() -> None:
        with path.open("r+b", buffering=0) as file:
            for _ in range(3_000):
                file.write(b"a")
                os.utime(file.fileno())

    async with watching(path) as told:
        await told.by_kernel(write_often)
        assert told.times == 1


async def test_events_that_the_kernel_dropped_count_as_a_change(tmp_path):
    path = settled(tmp_path / "file")
    room = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())

    def make_noise() -> None:
        for number in range(room // 2 + 10):
            (tmp_path / str(number)).touch()
            (tmp_path / str(number)).unlink()

    async with watching(path) as told:
        await told.by_kernel(make_noise)
        await told.by_kernel(path.touch)


async def test_a_folder_that_is_deleted_and_made_again_is_watched_again(tmp_path):
    folder = tmp_path / "folder"
    path = folder / "file"
    folder.mkdir()
    settled(path)
    async with watching(path) as told:
        await told.by_kernel(lambda: shutil.rmtree(folder))
        await told.by_kernel(folder.mkdir)
        await told.by_kernel(path.touch)
        await told.by_kernel(lambda: folder.rename(tmp_path / "away"))
        await told.by_kernel(lambda: (tmp_path / "away").rename(folder))
        await told.by_kernel(path.touch)


async def test_a_file_in_folders_that_are_not_there_yet_is_told_of_when_it_comes(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    async with watching(path) as told:
        await told.by_kernel((tmp_path / "a").mkdir)
        await told.by_kernel((tmp_path / "a" / "b").mkdir)
        await told.by_kernel(path.touch)
        shutil.rmtree(tmp_path / "a")
        await told.by_kernel(lambda: path.parent.mkdir(parents=True))
        await told.by_kernel(path.touch)


async def test_links_and_what_they_lead_to_are_watched(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        settled(tmp_path / name / "file")
    (tmp_path / "current").symlink_to("one")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link"
    link.symlink_to("../current/file")

    def switch() -> None:
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").replace(tmp_path / "current")

    async with watching(link) as told:
        await told.by_kernel(lambda: settled(tmp_path / "new").replace(tmp_path / "one" / "file"))
        await told.by_kernel((tmp_path / "one" / "file").touch)
        await told.by_kernel(switch)
        await told.by_kernel((tmp_path / "two" / "file").touch)
        await told.by_kernel(link.unlink)


async def test_links_in_a_circle_do_no_harm(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("link")
    async with watching(link) as told:
        await told.by_kernel(link.unlink)


async def test_a_relative_path_is_watched(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    async with watching(Path("../file")) as told:
        await told.by_kernel((tmp_path / "file").touch)


async def test_a_change_between_making_a_watch_and_starting_it_is_told(tmp_path):
    path, told = settled(tmp_path / "file"), Told()
    watch = FileWatch([path], told)
    settled(path, "ab")
    await told.again(watch.start)
    watch.close()


async def test_a_closed_watch_is_silent_and_leaves_no_descriptor(tmp_path):
    path, told = settled(tmp_path / "file"), Told()
    before = os.listdir("/proc/self/fd")
    async with FileWatch([path], told):
        await anyio.lowlevel.checkpoint()
    path.touch()
    await anyio.sleep(0)
    assert told.times == 0
    assert os.listdir("/proc/self/fd") == before


async def test_without_the_kernel_looking_has_to_do(tmp_path):
    """A process that may open nothing more gets no watch either."""
    path, told = settled(tmp_path / "file"), Told()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno() + 1, limits[1]))
        try:
            watch = FileWatch([path], told)
            watch.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    await anyio.lowlevel.checkpoint()  # the first look
    with pytest.raises(AssertionError, match="the kernel did not tell"):
        await told.by_kernel(lambda: settled(path, "ab"))
    await told.again(lambda: None)
    watch.close()
    assert POLL_EVERY <= 0.25
