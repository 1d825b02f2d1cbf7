"""A notification on the desktop: over a real session bus, from the real process to a daemon that shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sortie.workflow.channels import ChannelConfig

from .. import apt
from ..npm import TIME_TO_INSTALL

pytestmark = TIME_TO_INSTALL

DEBIAN = Path("/usr/lib/python3/dist-packages")
DAEMON = Path(__file__).with_name("notification_daemon.py")


class Desktop:
    """`environ` is what a program needs to find it."""

    def __init__(self, packages: Path) -> None:
        self._process = subprocess.Popen(
            ["dbus-run-session", "--", "/usr/bin/python3", "-I", str(DAEMON)],
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.environ = {"DBUS_SESSION_BUS_ADDRESS": str(self.shown()), "PYTHONPATH": str(packages)}

    def shown(self) -> Any:
        """The next that it shows; waits for it."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Of all that Debian has for its own Python, what talks to the bus, for ours."""
    try:
        apt.installed(
            ["dbus-run-session", "/usr/bin/python3"],
            ["dbus", "python3", "python3-dbus", "python3-gi"],
            [DEBIAN / "dbus", DEBIAN / "gi"],
        )
    except apt.NotInstalled as problem:
        apt.not_tested(problem)
    binary = DEBIAN / f"_dbus_bindings{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not binary.exists():
        pytest.skip(f"NOT TESTED: Debian's python3-dbus is for another Python than this one: no {binary}")
    place = tmp_path / "packages"
    place.mkdir()
    for found in (DEBIAN / "dbus", DEBIAN / "gi", *DEBIAN.glob("_dbus_*.so")):
        (place / found.name).symlink_to(found)
    return place


@pytest.fixture
def desktop(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desktop]:
    started = Desktop(packages)
    for name, value in started.environ.items():
        monkeypatch.setenv(name, value)
    yield started
    started.close()


def test_its_address_is_accepted_where_the_bus_can_be_reached_from_python(packages):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sortie.notify.addresses"],
        env={**os.environ, "PYTHONPATH": str(packages)},
        input=json.dumps(["dbus://", "dbus://?urgency=high"]),
        capture_output=True,
        text=True,
        timeout=45,
        check=True,
    )
    assert json.loads(done.stdout) == ["", ""]


def test_what_needs_a_person_is_shown_once_and_its_text_is_text(scene, desktop):
    scene.parks(1, reason='Is 1 < 2? <a href="https://elsewhere.example">http://127.0.0.1/</a>')
    notifier = scene.start({"desk": ChannelConfig(url="dbus://", digest_seconds=0)})
    assert desktop.shown() == {
        "program": "Apprise",
        "summary": "[sortie] T-1 needs an answer: Task 1",
        "body": 'Is 1 &lt; 2? &lt;a href="https://elsewhere.example"&gt;http://127.0.0.1/&lt;/a&gt;',
        "urgency": 1,
    }
    scene.parks(2)
    assert desktop.shown()["summary"] == "[sortie] T-2 needs an answer: Task 2"
    notifier.ends()
    assert scene.rows("issue_id", "sent_at IS NOT NULL") == [("1", 1), ("2", 1)]


def test_without_a_desktop_it_is_kept_with_what_went_wrong(scene, desktop, monkeypatch):
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
    scene.parks(1)
    scene.start({"desk": ChannelConfig(url="dbus://", digest_seconds=0)}).ends()
    assert scene.rows("error") == ["Failed to send DBus notification."]
