"""A disk that is full: the workspace's, then the store's. Needs a small file system of its own for that."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from ..servers.scripted import ScriptedServer
from .project import Project
from .shell import BLOCKED, FOR_EVER, says

SMALL = 'mount -t tmpfs -o size=2m,mode=755 small {place} && exec "$@"'


def can_mount() -> bool:
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs small /mnt"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    "not can_mount()", reason="NOT TESTED: full disks, because mounting a file system needs root and CAP_SYS_ADMIN"
)


def small_disk(project: Project, name: str) -> Path:
    """A directory of the project that is a file system of 2 MiB, for the service and its agents only."""
    place = project.root / name
    place.mkdir()
    project.prefix = ["unshare", "-m", "sh", "-c", SMALL.format(place=place), "sh"]
    return place


def test_a_full_workspace_fails_the_turn_and_hurts_nobody_else(project):
    """The agent's problem stays the agent's; the next issue runs once there is room again."""
    small_disk(project, "workspaces")
    project.workflow({"agent": {"max_concurrent_agents": 1}})
    project.add("1", "head -c 100M /dev/zero > big; code=$?; rm big; exit $code", priority=1)
    project.add("2", f"{says('second')}; {BLOCKED}", priority=2)
    assert project.run() == 3
    assert project.only_run("1").status == "failed"
    assert "No space left on device" in project.only_run("1").error
    assert project.only_run("2").soft_stop == "blocked"


def test_a_full_store_disk_holds_everything_up_and_loses_nothing(project):
    """While nothing can be written nothing new starts; with room again it goes on where it was."""
    store = small_disk(project, "store")
    project.workflow({"db_path": "store/db"})
    project.db_path = store / "db"
    gate = project.root / "gate"
    full = f"cat /dev/zero > {store}/filler 2>/dev/null"
    project.add(
        "1", f"{full}; {says('full')}; while [ ! -e {gate} ]; do sleep 0.05; done; rm {store}/filler; {BLOCKED}"
    )
    service = project.start()
    service.until(lambda: "full" in project.diary())
    project.add("2", f"{says('second')}; {BLOCKED}")
    service.until(lambda: "The disk is full" in project.output())
    assert "second" not in project.diary()
    gate.touch()
    service.until(lambda: "the store can be written again" in project.output())
    service.until(lambda: project.output().count('"soft_stop": "blocked"') == 2)
    assert project.diary() == ["full", "second"]
    inside = ["nsenter", f"--target={service.pid}", "--mount", f"--wd={project.root}"]
    answer = project.sortie("history", "--json", prefix=inside)
    assert answer.stdout.count('"succeeded"') == 2, answer.stderr
    assert service.stop() == 0


def test_people_are_told_of_a_full_store_disk_by_the_pages_and_past_the_store(project):
    store = small_disk(project, "store")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    project.environment.pop("SORTIE_SERVER_PORT", None)
    project.db_path = store / "db"
    gate = project.root / "gate"

    def needs() -> list[str]:
        with urlopen(f"http://127.0.0.1:{port}/api/v2/inbox", timeout=30) as answer:
            return [need["kind"] for need in json.load(answer)["needs_person"]]

    with ScriptedServer.running() as sink:
        channel = {"webhook": f"{sink.url}/hook", "digest_seconds": 0, "on": ["service"]}
        project.workflow({"db_path": "store/db", "server": {"port": port}, "notifications": {"ops": channel}})
        full = f"cat /dev/zero > {store}/filler 2>/dev/null"
        project.add(
            "1", f"{full}; {says('full')}; while [ ! -e {gate} ]; do sleep 0.05; done; rm {store}/filler; {BLOCKED}"
        )
        service = project.start()
        service.until(lambda: "full" in project.diary())
        project.add("2", BLOCKED)
        service.until(lambda: needs() == ["store"])
        service.until(lambda: sink.asked)
        gate.touch()
        service.until(lambda: needs() == ["signal", "signal"])
        assert service.stop() == 0
        (told,) = sink.asked
    assert json.loads(told.body)["event"] == "service"
    assert "The disk is full" in json.loads(told.body)["reason"]
    assert project.output().count("notifier: The disk is full") == 1


def test_a_stop_does_not_wait_for_a_disk_that_stays_full(project):
    """The agents are ended within seconds, and the exit code says that not everything could be written down."""
    store = small_disk(project, "store")
    project.workflow({"db_path": "store/db"})
    project.db_path = store / "db"
    project.add("1", f"cat /dev/zero > {store}/filler 2>/dev/null; {says('full')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: "full" in project.diary())
    project.add("2", BLOCKED)
    service.until(lambda: "The disk is full" in project.output())
    assert service.stop() == 1
    assert "as after a crash" in project.output()
    assert project.living() == []


def test_a_full_disk_of_temporary_files_is_nothing_to_the_store(project):
    """Agents fill /tmp more often than anything else; what we remember is on another disk."""
    temporary = small_disk(project, "temporary")
    project.add("1", f"cat /dev/zero > {temporary}/filler 2>/dev/null; {says('full')}; {BLOCKED}", priority=1)
    project.workflow({"agent": {"max_concurrent_agents": 1}})
    for number in range(2, 12):
        project.add(str(number), f"{says('more')}; {BLOCKED}", priority=2)
    assert project.run(TMPDIR=str(temporary)) == 3
    assert project.diary() == ["full", *["more"] * 10]
    assert "The disk is full" not in project.output()
