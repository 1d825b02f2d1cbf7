"""`sortie doctor` and a tracker that looks at its own access: its findings come first, and a failure ends it."""

from __future__ import annotations

import sys
import textwrap

import pytest

from .scene import Said, ask

TRACKER = """\
from sortie.core.model import Finding
from sortie.errors import TrackerError
from sortie.trackers.file import FileTracker


class Examining(FileTracker):
    @classmethod
    def from_settings(cls, settings):
        return cls(settings.base / "issues.json", settings.active_states, settings.terminal_states, ())

    @classmethod
    def check(cls, settings):
        return []

    async def examine(self):
        {answer}

    async def fetch_candidates(self):
        print("listed")
        return await super().fetch_candidates()
"""


@pytest.fixture
def doctor(scene, capsys, monkeypatch):
    """With a tracker of another package, which answers in this way when it is to look at its access."""

    def examined(answer: str) -> Said:
        site = scene.directory / "site"
        metadata = site / "examining-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: examining\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[sortie.trackers]\nexamining = examining:Examining\n")
        (site / "examining.py").write_text(TRACKER.format(answer=textwrap.indent(answer, "        ").strip()))
        monkeypatch.syspath_prepend(site)
        scene.workflow.write_text(scene.workflow.read_text().replace("kind: file", "kind: examining"))
        try:
            return ask(capsys, "doctor", str(scene.workflow))
        finally:
            sys.modules.pop("examining", None)

    return examined


def test_findings_of_the_tracker_come_before_its_issues(doctor):
    answer = (
        'return [Finding("PASS", "access", "may read"), Finding("WARN", "labels", "two are missing.", "Add them.")]'
    )
    said = doctor(answer)
    lines = said.out.splitlines()
    first = lines.index("PASS  access: may read")
    assert lines[first + 1 : first + 3] == [
        "WARN  labels: two are missing. Add them.",
        "PASS  tracker (examining): 0 active issues",
    ]
    assert (said.code, "listed" in said.out) == (0, True)


def test_where_access_fails_issues_are_not_asked_for(doctor):
    said = doctor('return [Finding("FAIL", "access", "may not write.", "Give it the permission.")]')
    assert "FAIL  access: may not write. Give it the permission." in said.out
    assert "listed" not in said.out and "tracker (examining)" not in said.out
    assert said.code == 1


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            'raise TrackerError(TrackerError.AUTH, "the key is refused.", fix="Make another.")',
            "the key is refused.",
        ),
        ("raise KeyError('oops')", "KeyError"),
        ("return 'all is well'", "no list of findings"),
        ("return [1]", "no list of findings"),
        ("raise TimeoutError", "no answer within"),
    ],
)
def test_a_tracker_that_cannot_look_at_its_access_fails_with_one_sentence(doctor, answer, sentence):
    said = doctor(answer)
    (line,) = [line for line in said.out.splitlines() if line.startswith("FAIL")]
    assert line.startswith("FAIL  tracker (examining): ") and sentence in line
    assert (said.code, "listed" in said.out, "Traceback" in said.err) == (1, False, False)
