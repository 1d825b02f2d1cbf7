"""Changed files are compared once for many readers, and anew when what was found has stood long enough."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any

import msgspec
import pytest

from sortie.core import events as ev
from sortie.reports.run_detail import latest_run
from sortie.web.changed_files import MOST_AWAITED, MOST_KEPT, ChangedFiles
from sortie.web.replies import Shown
from sortie.web.site import Site
from tests.cli.scene import wait_until

from .busy_store import busy_store
from .live_server import append, new_store, served


@pytest.fixture
def site(tmp_path):
    return Site(busy_store(tmp_path, repository=True), tmp_path / "WORKFLOW.md")


def run_of(site: Site, issue: str):
    with site.looking() as db:
        return latest_run(db, issue, hide=site.hide)


def test_readers_at_the_same_time_share_one_comparison(site):
    files, run = ChangedFiles(site.hide), run_of(site, "SHOP-1")
    with ThreadPoolExecutor(8) as readers:
        seen = list(readers.map(lambda _: files.of(run), range(24)))
    assert len({id(one) for one in seen}) == 1
    assert seen[0] and [file.path for file in seen[0].changes.files] == ["cookie.py", "test_cookie.py"]


def test_what_was_compared_stands_for_a_while_and_is_then_compared_anew(site):
    run = run_of(site, "SHOP-1")
    assert run
    patient, impatient = (
        ChangedFiles(site.hide, stands_for=3600.0),
        ChangedFiles(site.hide, stands_for=0.0, rest=0.0),
    )
    first = patient.of(run)
    assert impatient.of(run)
    (Path(run.workspace) / "another.py").write_text("x = 1\n")
    assert patient.of(run) is first
    again = impatient.of(run)
    assert again and [file.path for file in again.changes.files] == ["another.py", "cookie.py", "test_cookie.py"]


def test_what_took_long_stands_for_longer(site):
    """However short it would stand otherwise."""
    run = run_of(site, "SHOP-1")
    files = ChangedFiles(site.hide, stands_for=0.0, rest=1e9)
    assert files.of(run) is files.of(run)


def test_what_one_site_knows_is_not_that_of_another(tmp_path):
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
    one, another = (Site(new_store(tmp_path / name / "s.db"), tmp_path / name) for name in ("one", "another"))
    assert one.changed_files is not another.changed_files
    name = one.replies.keep(Shown(True, "It was stopped."))
    assert (one.replies.shown(name), another.replies.shown(name)) == (Shown(True, "It was stopped."), None)


@pytest.fixture
def go(tmp_path, monkeypatch) -> Path:
    """Until this file is there, git waits."""
    file: Path = tmp_path / "go"
    stand_in = tmp_path / "bin" / "git"
    stand_in.parent.mkdir()
    waits = f"while [ ! -e {file} ]; do sleep 0.02; done"
    stand_in.write_text(f'#!/bin/sh\n{waits}\nexec {which("git")} "$@"\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    return file


def test_nobody_waits_long_for_a_comparison(site, go):
    """Readers are the threads in which everything else is reported, too."""
    files, run = ChangedFiles(site.hide, patience=0.0), run_of(site, "SHOP-1")
    with ThreadPoolExecutor(8) as readers:
        for seen in readers.map(lambda _: files.of(run), range(8)):
            assert seen and "being compared" in seen.changes.problem
    go.touch()
    seen = wait_until(lambda: (found := files.of(run)) and not found.changes.problem and found)
    assert [file.path for file in seen.changes.files] == ["cookie.py", "test_cookie.py"]


def test_whoever_asks_for_ever_more_does_not_keep_the_others_waiting_for_ever(site, go):
    files, run = ChangedFiles(site.hide, patience=0.0), run_of(site, "SHOP-1")
    assert run
    for number in range(3 * MOST_AWAITED):
        seen = files.of(msgspec.structs.replace(run, run_id=f"run-{number}"))
        assert seen and "being compared" in seen.changes.problem
    assert len(files._coming) == MOST_AWAITED
    go.touch()
    assert wait_until(lambda: (found := files.of(run)) and found.changes.files)


def test_what_fails_is_told_and_tried_again(site):
    files, run = ChangedFiles(site.hide), run_of(site, "SHOP-1")
    assert run
    broken = msgspec.structs.replace(run, workspace="\0")
    for _ in range(2):
        with pytest.raises(ValueError, match="null byte"):
            files.of(broken)
    assert files.of(run)


def test_the_api_tells_what_the_page_shows_and_nothing_of_other_hosts(tmp_path):
    store, path = busy_store(tmp_path, repository=True), "/api/v2/issues/%s/changes"
    with served(store) as server:
        found = server.get(path % "SHOP-1").json
        assert (found["kind"], [file["path"] for file in found["files"]]) == (
            "diff",
            ["cookie.py", "test_cookie.py"],
        )
        run: dict[str, Any] = {"issue_id": "far", "run_id": "far-1", "identifier": "FAR-1"}
        path_there = found["workspace"]
        append(
            store,
            ev.Claimed(at=time.time(), attempt=1, host="another", **run),
            ev.WorkspaceMade(at=time.time(), key="FAR-1", path=path_there, **run),
        )
        found = server.get(path % "FAR-1").json
        assert (found["files"], found["problem"]) == ([], "Its last run is on another host.")


def test_a_run_without_a_directory_here_has_no_changed_files(site):
    files = ChangedFiles(site.hide)
    assert files.of(run_of(site, "SHOP-2")) is None
    assert files.of(None) is None


def test_of_many_runs_only_some_are_kept(site):
    files, run = ChangedFiles(site.hide), run_of(site, "SHOP-1")
    assert run
    for number in range(MOST_KEPT + 3):
        gone = msgspec.structs.replace(run, run_id=f"run-{number}", workspace="/nonexistent/place")
        seen = files.of(gone)
        assert seen and seen.changes.kind == "gone"
    assert len(files._seen) == MOST_KEPT
    assert not files._coming
