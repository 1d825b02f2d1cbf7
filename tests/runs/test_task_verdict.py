"""The verdict on a task: the table of `task_verdict`, row by row, and what is laid out before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.seals import broken_seals
from sortie.protocol.task_status import read_task_status
from sortie.runs.spec import TaskSpec
from sortie.runs.task_folder import lay_out, seal_of
from sortie.runs.task_verdict import judge

STATES = st.sampled_from(["pending", "running", "completed", "failed"])


@pytest.mark.parametrize(
    ("state", "knows", "lacking", "is_last", "verdict"),
    [
        ("completed", True, [], False, "completed"),
        ("completed", True, ["x"], False, "incomplete"),
        ("failed", True, [], False, "failed"),
        ("running", True, [], False, "goes on"),
        ("running", True, [], True, "unfinished"),
        ("pending", False, [], False, "completed"),
        ("pending", False, ["x"], False, "goes on"),
        ("pending", False, ["x"], True, "incomplete"),
        ("pending", True, [], True, "unfinished"),
    ],
)
def test_every_row_of_the_table(state, knows, lacking, is_last, verdict):
    """BOX-02, BOX-05"""
    assert judge(state, lacking, knows_protocol=knows, is_last=is_last) == verdict


@given(STATES, st.lists(st.text(), max_size=2), st.booleans(), st.booleans())
def test_nothing_is_completed_that_lacks_something_and_nothing_goes_on_after_the_last_turn(
    state, lacking, knows, last
):
    """BOX-05, TBX-06"""
    verdict = judge(state, lacking, knows_protocol=knows, is_last=last)
    assert not (verdict == "completed" and lacking)
    assert not (verdict == "goes on" and last)
    assert not (verdict == "completed" and state in ("running", "failed"))


@pytest.fixture
def folder(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def spec(**more: object) -> TaskSpec:
    fields: dict[str, object] = {"made_by": "m", "skill": "s", "instructions": "i", "dependencies": {}, **more}
    return TaskSpec(outbox_bytes=1000, outbox_files=10, **fields)  # type: ignore[arg-type]


def go() -> None:
    pass


def test_what_was_given_is_what_is_there(tmp_path, folder):
    """BOX-01, TBX-11"""
    laid_out = lay_out(folder, spec(), go, may_go_on=False)
    assert laid_out.attempt == 1 and not laid_out.goes_on
    assert seal_of(folder, spec(), go) == laid_out.given
    assert sorted(os.listdir(tmp_path)) == ["SKILL.md", "inbox", "outbox", "status.json", "workspace"]
    (tmp_path / "inbox").chmod(0o750)
    (tmp_path / "inbox" / "instructions.md").unlink()
    assert broken_seals(laid_out.given, seal_of(folder, spec(), go)) != []


def test_an_attempt_that_left_nothing_is_not_counted(folder):
    for _ in range(3):
        assert lay_out(folder, spec(), go, may_go_on=False).attempt == 1


@pytest.mark.parametrize("goes_on", [False, True])
def test_what_a_death_left_of_a_status_is_no_attempt_and_does_not_stay(tmp_path, folder, goes_on):
    """BOX-12: killed after `status.json` was put in place, before the one that stood there was removed."""
    lay_out(folder, spec(), go, may_go_on=False)
    (tmp_path / ".status.json.0123456789abcdef.tmp").write_text("{}")
    assert lay_out(folder, spec(resumes=True), go, may_go_on=goes_on)[:2] == (1, goes_on)
    assert sorted(os.listdir(tmp_path)) == ["SKILL.md", "inbox", "outbox", "status.json", "workspace"]


def test_a_cut_attempt_is_gone_on_with_only_if_that_is_allowed_and_nothing_changed(tmp_path, folder):
    """BOX-12"""
    lay_out(folder, spec(), go, may_go_on=False)
    (tmp_path / "outbox" / "half").touch()
    again = spec(resumes=True)
    assert lay_out(folder, again, go, may_go_on=True)[:2] == (1, True)
    assert (tmp_path / "outbox" / "half").exists()
    assert lay_out(folder, spec(resumes=True, instructions="other"), go, may_go_on=True)[:2] == (2, False)
    assert (tmp_path / "attempts" / "001" / "outbox" / "half").exists()
    (tmp_path / "outbox" / "half").touch()
    assert lay_out(folder, again, go, may_go_on=False)[:2] == (3, False)


def test_a_move_that_died_is_finished_by_the_next(tmp_path, folder):
    """TBX-13: killed between two renames, nothing is lost, and no number is used twice."""
    lay_out(folder, spec(), go, may_go_on=False)
    (tmp_path / "outbox" / "a").touch()
    (tmp_path / "workspace" / "b").touch()
    (tmp_path / "attempts" / ".next").mkdir(parents=True)
    (tmp_path / "outbox").rename(tmp_path / "attempts" / ".next" / "outbox")
    assert lay_out(folder, spec(), go, may_go_on=False).attempt == 2
    first = tmp_path / "attempts" / "001"
    assert (first / "outbox" / "a").exists() and (first / "workspace" / "b").exists()
    assert not (tmp_path / "attempts" / ".next").exists()


@pytest.mark.parametrize("name", ["attempts", "outbox", "workspace", "inbox", "SKILL.md", "status.json"])
@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo", "directory"])
def test_whatever_an_agent_puts_in_the_place_of_a_part_the_next_attempt_has_its_folder(
    tmp_path, folder, name, kind
):
    """BOX-01: nothing is followed, and what was outside stays."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    lay_out(folder, spec(), go, may_go_on=False)
    put(tmp_path / name, kind, outside)
    laid_out = lay_out(folder, spec(), go, may_go_on=False)
    assert seal_of(folder, spec(), go) == laid_out.given
    status = read_task_status(folder).status
    assert status and (status.state, status.attempt) == ("pending", laid_out.attempt)
    for part in ("outbox", "workspace"):
        assert (tmp_path / part).is_dir() and not (tmp_path / part).is_symlink()
        assert os.listdir(tmp_path / part) == []
    assert (outside / "precious").read_text() == "kept" and os.listdir(outside) == ["precious"]


def put(place: Path, kind: str, outside: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        os.system(f"chmod -R u+w {place}; rm -rf {place}")
    else:
        place.unlink(missing_ok=True)
    match kind:
        case "link":
            place.symlink_to(outside)
        case "dangling":
            place.symlink_to("nowhere")
        case "file":
            place.write_text("odd")
        case "fifo":
            os.mkfifo(place)
        case "directory":
            place.mkdir()
            (place / "odd").touch()
