"""A disk that is full for a while: the service says so, goes on, and finishes once there is room again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .proofs import End, assert_sound, ends_by_conduct
from .scene import DEADLINE, Scene, until

CONDUCTS = ("review", "turns-3", "blocked", "stumbles", "family-80")


class SmallDisk:
    """A file system of a few megabytes that only processes started with `enter` see under its own name."""

    def __init__(self, keeper: int, path: Path) -> None:
        self.enter = ["nsenter", "-m", "-t", str(keeper)]
        self.seen_from_outside = Path(f"/proc/{keeper}/root{path}")

    def fill(self) -> None:
        with (self.seen_from_outside / "filler").open("wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        filler.write(bytes(size))
                except OSError:
                    pass  # full, for pieces of this size

    def free(self) -> None:
        (self.seen_from_outside / "filler").unlink()


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("NOT TESTED: a full disk needs root, unshare and nsenter to mount a small one")
    path.mkdir(parents=True)
    script = 'mount -t tmpfs -o size=16m tmpfs "$1" && echo mounted && exec sleep 600'
    keeper = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", str(path)], stdout=subprocess.PIPE)
    assert keeper.stdout is not None
    try:
        if keeper.stdout.readline() != b"mounted\n":
            pytest.skip("NOT TESTED: a full disk; this machine does not allow to mount a small one")
        yield SmallDisk(keeper.pid, path)
    finally:
        keeper.kill()
        keeper.wait()
        keeper.stdout.close()


@pytest.fixture(scope="module")
def undisturbed_ends(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("undisturbed") / "scene", CONDUCTS)
    scene.run_to_the_end()
    return ends_by_conduct(scene)


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path / "scene", CONDUCTS, more="db_path: small/.sortie.db")


def fill_while_agents_work(scene: Scene, disk: SmallDisk) -> None:
    until(lambda: "turn 1 started" in scene.what_was_said(), "the first agent")
    disk.fill()
    until(lambda: "disk is full" in scene.what_was_said(), "the report of the full disk")


def assert_ended_like(ends: dict[str, End], scene: Scene, disk: SmallDisk) -> None:
    for part in disk.seen_from_outside.glob(".sortie.db*"):
        if part.is_file():
            shutil.copy(part, scene.base)
    assert ends_by_conduct(scene) == ends
    assert_sound(scene)


def test_a_full_disk_is_reported_and_waited_for(scene, undisturbed_ends):
    with small_disk(scene.base / "small") as disk:
        with scene.orchestrator(disk.enter) as process:
            fill_while_agents_work(scene, disk)
            assert process.poll() is None
            disk.free()
            assert process.wait(DEADLINE) == 3, scene.what_was_said()
        assert_ended_like(undisturbed_ends, scene, disk)


def test_a_kill_on_a_full_disk_loses_nothing(scene, undisturbed_ends):
    with small_disk(scene.base / "small") as disk:
        with scene.orchestrator(disk.enter) as process:
            fill_while_agents_work(scene, disk)
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
        heard = len(scene.what_was_said())
        with scene.orchestrator(disk.enter) as process:
            until(lambda: len(scene.what_was_said()) > heard, "a second report")
            disk.free()
            process.wait(DEADLINE)
        with scene.orchestrator(disk.enter) as process:
            assert process.wait(DEADLINE) == 3, scene.what_was_said()
        assert_ended_like(undisturbed_ends, scene, disk)


def test_a_full_disk_under_the_work_log_costs_entries_and_nothing_else(tmp_path):
    """LOG-14: no run fails or waits, and nothing half written is left."""
    with small_disk(tmp_path / "disk") as disk:
        scene = Scene(tmp_path / "scene", ["review_0", "blocked_1"], more=f"worklog: {tmp_path}/disk/WORKLOG.md")
        log = disk.seen_from_outside / "WORKLOG.md"
        log.write_text("# WORKLOG\n")
        disk.fill()
        with scene.orchestrator(disk.enter) as process:
            assert process.wait(DEADLINE) in (0, 3), scene.what_was_said()
        assert {status for status, _ in scene.verdicts()} == {"succeeded"}
        assert scene.issues()["review_0"]["state"] == "Review"
        assert "entry in the work log failed" in scene.what_was_said()
        assert "no space left on device" in scene.what_was_said()
        assert log.read_text() == "# WORKLOG\n"
