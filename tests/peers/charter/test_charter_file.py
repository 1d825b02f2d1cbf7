"""A text of the charter counts by a decision of the maintainer, once, whatever crashes in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from sortie.errors import SortieError
from sortie.peers.author import Author, AuthorityError
from sortie.peers.charter.charter_file import Adoption, CharterFile, Standing
from sortie.peers.place import Place, place_at
from sortie.peers.roster import roster_of
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.worklog_file import WorklogFile

ROB = Author(name="Rob", role="maintainer")
ALICE = Author(name="alice", role="agent", run_id="r1")
TEXT = b"# C\n- Session ID: s1\n## Roster\n| Role | Agent |\n|--|--|\n| Maintainer | Rob |\n| Agent | alice |\n"


@pytest.fixture
def place(tmp_path) -> Place:
    place = place_at(tmp_path)
    WorklogFile(place.worklog, session_id="s1").create(["alice"], "Rob", ROB, 1.0)
    CharterFile(place).create(TEXT, ROB, 1.0)
    return place


@pytest.fixture
def file(place) -> CharterFile:
    return CharterFile(place)


def decisions(place: Place) -> list[str]:
    events = events_of(WorklogFile(place.worklog).read())
    return [event.subject for event in events if event.event_type == "decision.recorded"]


def test_a_draft_is_adopted_with_a_decision_in_the_log(file, place):
    """LOG-08"""
    assert file.standing().state == "draft"
    standing = file.adopt("we agreed", ROB, at=2.0).standing
    assert (standing.state, standing.version) == ("adopted", 1)
    assert file.standing() == standing
    assert decisions(place) == ["Charter adopted, version 1"]
    assert b"we agreed" in place.worklog.read_bytes()
    assert file.adopt("again", ROB, at=3.0) == Adoption(standing=standing, is_new=False)
    assert len(decisions(place)) == 1


def test_a_change_without_a_decision_does_not_count(file, place):
    """LOG-08: the adopted text stays in force, for lanes and for who takes part."""
    file.adopt("we agreed", ROB, at=2.0)
    place.charter.write_bytes(TEXT.replace(b"alice", b"eve").replace(b"Rob", b"alice"))
    assert file.standing().state == "changed"
    assert "without a decision" in file.standing().problem
    found = file.in_force()
    assert found is not None and found.text == TEXT
    assert roster_of(place).agents == ("alice",) and roster_of(place).maintainer == "Rob"


def test_an_amendment_has_its_decision_and_the_same_text_may_come_again(file, place):
    """LOG-08"""
    file.adopt("first", ROB, at=2.0)
    other = TEXT + b"## Governance\n- Decision mode: quorum\n"
    for number, text in enumerate([other, TEXT, other, TEXT], 2):
        standing = file.adopt(f"reason {number}", ROB, at=float(number), new=text).standing
        assert (standing.version, file.read()) == (number, text)
    assert len(decisions(place)) == 5


@pytest.mark.parametrize(
    "change", [lambda text: text.replace(b"\n", b"\r\n"), lambda text: b"\xef\xbb\xbf" + text + b"\n\n"]
)
def test_what_git_and_editors_do_to_line_ends_is_no_change(file, place, change):
    """LOG-08"""
    file.adopt("first", ROB, at=2.0)
    place.charter.write_bytes(change(TEXT))
    assert file.standing().state == "adopted"


def test_an_agent_decides_nothing(file, place):
    """LOG-08 LOG-05"""
    with pytest.raises(AuthorityError, match="Only the maintainer"):
        file.adopt("mine", ALICE, at=2.0)
    file.adopt("we agreed", ROB, at=2.0)
    place.charter.write_bytes(TEXT + b"more\n")
    for author in (ALICE, Author(name="Rob", role="agent"), Author(name="Sortie", role="orchestrator")):
        with pytest.raises(AuthorityError):
            file.adopt("mine", author, at=3.0, new=b"mine")
        with pytest.raises(AuthorityError):
            file.restore(author, at=3.0)
    assert place.charter.read_bytes() == TEXT + b"more\n"
    assert len(decisions(place)) == 1


def test_the_adopted_text_comes_back_and_the_other_is_kept(file, place):
    """LOG-08: nothing is thrown away."""
    with pytest.raises(SortieError, match="No charter was adopted"):
        file.restore(ROB, at=2.0)
    file.adopt("we agreed", ROB, at=2.0)
    place.charter.write_bytes(b"vandalised")
    kept = file.restore(ROB, at=3.0)
    assert kept is not None and kept.read_bytes() == b"vandalised"
    assert place.charter.read_bytes() == TEXT == file.adopted_text()
    place.charter.unlink()
    assert file.standing().state == "missing" and "gone" in file.standing().problem
    assert file.restore(ROB, at=4.0) is None
    assert place.charter.read_bytes() == TEXT


def test_a_kept_text_that_somebody_changed_is_not_believed(file, place):
    """LOG-08"""
    file.adopt("we agreed", ROB, at=2.0)
    (kept,) = (place.state / "charter").iterdir()
    kept.write_bytes(b"## Roster\n- eve\n")
    place.charter.write_bytes(b"changed")
    assert file.adopted_text() is None
    with pytest.raises(SortieError, match="not kept here any more"):
        file.in_force()
    assert roster_of(place).agents == ()
    with pytest.raises(SortieError, match="not kept here any more"):
        file.restore(ROB, at=3.0)


def test_a_crash_between_the_decision_and_its_record_is_repaired_without_a_second_decision(file, place):
    """LOG-08: the files are as such a crash leaves them."""
    file.adopt("first", ROB, at=2.0)
    before = {path: path.read_bytes() for path in place.state.glob("CHARTER.md.*")}
    place.charter.write_bytes(TEXT + b"more\n")
    file.adopt("second", ROB, at=3.0)
    for path, content in before.items():
        path.write_bytes(content)
    standing = file.standing()
    assert (standing.state, standing.version, standing.unsettled) == ("adopted", 2, True)
    file.settle(4.0)
    assert file.standing() == Standing(state="adopted", digest=standing.digest, adopted=standing.digest, version=2)
    for path, content in before.items():
        path.write_bytes(content)
    assert file.adopt("second", ROB, at=5.0).standing.version == 2
    assert len(decisions(place)) == 2


def test_a_decision_that_never_came_into_the_log_does_not_count(file, place):
    """LOG-08: its record is there, and its writer died before the entry was. The files are as that leaves them."""
    file.adopt("first", ROB, at=2.0)
    before = {path: path.read_bytes() for path in (place.worklog, *place.state.glob("CHARTER.md.*"))}
    place.charter.write_bytes(TEXT + b"more\n")
    file.adopt("second", ROB, at=3.0)
    place.worklog.rename(place.worklog.with_name("later"))
    (place.state / "WORKLOG.md.stamp").unlink()
    for path, content in before.items():
        path.write_bytes(content)
    assert file.standing().state == "changed"
    assert file.adopt("third", ROB, at=5.0).standing.version == 2
    assert decisions(place) == ["Charter adopted, version 1", "Charter amended, version 2"]
    assert b"third" in place.worklog.read_bytes()


ADOPTING = """
import sys
from pathlib import Path
from sortie.peers.author import Author
from sortie.peers.charter.charter_file import CharterFile
from sortie.peers.place import place_at
file = CharterFile(place_at(Path(sys.argv[1])))
for number in range(int(sys.argv[2]), 10_000):
    print(number, flush=True)
    new = file.read() + f"- text {number}\\n".encode()
    file.adopt(f"reason {number}", Author(name="Rob", role="maintainer"), at=float(number), new=new)
"""


@pytest.mark.timeout(60)
def test_whoever_is_killed_at_any_moment_decides_each_version_once(file, place):
    """LOG-08"""
    file.adopt("first", ROB, at=1.0)
    chance, number = random.Random(4), 0
    for _ in range(6):
        argv = [sys.executable, "-c", ADOPTING, str(place.root), str(number)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 4)):
                number = int(process.stdout.readline()) + 1
            time.sleep(chance.uniform(0, 0.02))  # no condition: the moment is to be any
            os.kill(process.pid, signal.SIGKILL)
        standing = file.standing()
        if standing.state == "changed":  # the text was there, the decision was not: it is taken again
            standing = file.adopt("again", ROB, at=1.0).standing
        file.settle(1.0)
        assert file.standing().state == "adopted" and not file.standing().unsettled
        assert len(decisions(place)) == file.standing().version


def test_where_the_text_cannot_be_kept_nothing_is_decided(file, place):
    """LOG-08: an adopted text that could not be given back would be worth little."""
    place.state.mkdir(exist_ok=True)
    (place.state / "charter").write_text("in the way")
    with pytest.raises(SortieError):
        file.adopt("we agreed", ROB, at=2.0)
    assert (decisions(place), file.standing().state) == ([], "draft")


def test_a_charter_that_cannot_be_read_is_an_error(place):
    place.charter.unlink()
    os.mkfifo(place.charter)
    with pytest.raises(SortieError):
        CharterFile(place).standing()
    place.charter.unlink()
    place.charter.symlink_to(place.worklog)
    with pytest.raises(SortieError):
        CharterFile(place).in_force()
