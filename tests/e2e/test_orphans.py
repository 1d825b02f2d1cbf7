"""Nothing outlives us: what an agent hides from its environment, session, directory and files ends all the same."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sortie.core import events as ev

from .processes import is_alive, wait_for
from .project import Project
from .shell import BLOCKED, FOR_EVER, says

TWO = {"agent": {"max_concurrent_agents": 2}}

# What only a program does that knows of the brand.
UNBRAND = (
    "import os, resource, sys; "
    "resource.setrlimit(resource.RLIMIT_RTTIME, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); "
    "os.execv('/bin/sh', ['sh', '-c', sys.argv[1]])"
)


class Orphans:
    """Commands that leave an orphan behind, by name, and its number once it is there."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def leave(self, name: str, *, branded: bool = True, secret: str = "") -> str:
        """Written for an agent's script; it waits until the orphan has shaken off everything."""
        path = self._root / f"{name}.pid"
        script = f"exec </dev/null >/dev/null 2>&1; cd /; echo $$ > {path}; while :; do sleep 600; done {secret}"
        command = f"sh -c {shlex.quote(script)}"
        if not branded:
            command = f"{sys.executable} -c {shlex.quote(UNBRAND)} {shlex.quote(script)}"
        return f"env -i PATH=$PATH setsid -f {command}; while [ ! -s {path} ]; do sleep 0.01; done"

    def pid(self, name: str) -> int:
        path = self._root / f"{name}.pid"
        return int(wait_for(lambda: path.read_text() if path.exists() else None))

    def is_alive(self, name: str) -> bool:
        return is_alive(self.pid(name))

    def clean_up(self) -> None:
        for path in self._root.glob("*.pid"):
            pid = int(path.read_text())
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def orphans(project: Project, tmp_path: Path) -> Iterator[Orphans]:
    root = tmp_path / "orphans"
    root.mkdir()
    made = Orphans(root)
    yield made
    made.clean_up()


def waits_for(gate: Path) -> str:
    return f"while [ ! -e {gate} ]; do sleep 0.02; done"


def test_an_orphan_ends_with_its_run_while_another_run_and_its_orphan_go_on(project, orphans):
    project.workflow(TWO)
    gate = project.root / "gate"
    project.add("1", f"{orphans.leave('one')}; {waits_for(gate)}; {BLOCKED}")
    project.add("2", f"{orphans.leave('two')}; {says('ready')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary() == ["ready"] and orphans.is_alive("one"))
    gate.touch()
    service.until(lambda: "1" in project.parked())
    assert not orphans.is_alive("one")
    assert orphans.is_alive("two")
    assert service.stop() == 0
    assert not orphans.is_alive("two")


def test_an_orphan_of_unknown_owner_is_reported_and_ends_with_the_last_run_that_could_own_it(project, orphans):
    """It is named once, without the secrets in its command line."""
    project.workflow({**TWO, "tracker": {"api_key": "$MY_KEY"}})
    gate = project.root / "gate"
    project.add("1", f"{says('ready')}; {waits_for(gate)}; {BLOCKED}", priority=1)
    unbranded = orphans.leave("one", branded=False, secret="; : sk-tracker-0123456789abcdef")
    project.add("2", f"while ! grep -q ready $DIARY; do sleep 0.02; done; {unbranded}; {BLOCKED}", priority=2)
    service = project.start(MY_KEY="sk-tracker-0123456789abcdef")
    service.until(lambda: "2" in project.parked())
    assert orphans.is_alive("one")
    told = service.until(lambda: [note for note in project.events(ev.Noted) if "whose" in note.message])
    assert f"process {orphans.pid('one')}: sh -c exec" in told[0].detail
    assert "[redacted]" in told[0].detail
    gate.touch()
    service.until(lambda: "1" in project.parked())
    assert not orphans.is_alive("one")
    assert service.stop() == 0
    assert len([note for note in project.events(ev.Noted) if "whose" in note.message]) == 1


@pytest.mark.parametrize("branded", [True, False], ids=["branded", "unbranded"])
def test_an_orphan_does_not_survive_a_service_that_ends_when_idle(project, orphans, branded):
    project.add("1", f"{orphans.leave('one', branded=branded)}; {BLOCKED}")
    assert project.run() == 3
    assert not orphans.is_alive("one")


@pytest.mark.parametrize("signals", [1, 2])
def test_an_orphan_in_doubt_does_not_survive_the_shutdown(project, orphans, signals):
    """Neither a drain nor the second signal, which waits for nobody; not even an agent that has lost its marks."""
    project.workflow(TWO)
    deaf = "trap '' TERM; " if signals == 2 else ""
    project.add("1", f"{orphans.leave('one', branded=False)}; {says('$$')}; {deaf}{FOR_EVER}")
    hidden = f"echo \\$\\$ >> $DIARY; {deaf}{FOR_EVER}"
    project.add("2", f'exec env -i PATH=$PATH DIARY=$DIARY sh -c "cd /; {hidden}"')
    service = project.start()
    agents = service.until(lambda: len(project.diary()) == 2 and [int(line) for line in project.diary()])
    service.signal(signal.SIGTERM)
    if signals == 2:
        service.until(lambda: project.events(ev.Stopping))
        service.signal(signal.SIGTERM)
    service.wait()
    assert not orphans.is_alive("one")
    assert not any(is_alive(pid) for pid in agents)


def test_after_kill_the_next_start_ends_the_orphan_too(project, orphans):
    """Init has it by then, and nothing but its brand says that it is ours."""
    project.add("1", f"[ -e again ] && {{ {BLOCKED}; exit; }}; touch again; {orphans.leave('one')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: (project.workspace("1") / "again").exists())
    pid = orphans.pid("one")
    service.kill()
    assert is_alive(pid)
    project.run()
    assert not is_alive(pid)
    assert f"ended process {pid}" in project.notes()
