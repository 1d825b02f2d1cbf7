"""Changed files are compared once for many readers, and anew when what was found has stood long enough."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from sortie.reports.run_detail import run_detail
from sortie.web import changed_files
from sortie.web.changed_files import MOST_KEPT, ChangedFiles
from sortie.web.site import Site

from .busy_store import busy_store


@pytest.fixture
def site(tmp_path):
    return Site(busy_store(tmp_path, repository=True), tmp_path / "WORKFLOW.md")


def run_of(site: Site, issue: str):
    with site.looking() as db:
        (run_id,) = db.execute("SELECT run_id FROM claims WHERE issue_id = ?", (issue,)).fetchone()
        return run_detail(db, run_id, hide=site.hide)


def test_readers_at_the_same_time_share_one_comparison(site):
    files, run = ChangedFiles(), run_of(site, "SHOP-1")
    with ThreadPoolExecutor(8) as readers:
        seen = list(readers.map(lambda _: files.of(site, run), range(24)))
    assert len({id(one) for one in seen}) == 1
    assert seen[0] and [file.path for file in seen[0].changes.files] == ["cookie.py", "test_cookie.py"]


def test_what_has_stood_long_enough_is_compared_anew(site):
    files, run = ChangedFiles(), run_of(site, "SHOP-1")
    first = files.of(site, run)
    assert first and run and first.until > time.monotonic() + changed_files.STANDS_FOR - 1
    (Path(run.workspace) / "another.py").write_text("x = 1\n")
    assert files.of(site, run) is first
    files._seen[run.run_id] = changed_files.Seen(first.changes, first.at, until=0.0)
    again = files.of(site, run)
    assert again and [file.path for file in again.changes.files] == ["another.py", "cookie.py", "test_cookie.py"]


def test_a_run_without_a_directory_here_has_no_changed_files(site):
    files = ChangedFiles()
    assert files.of(site, run_of(site, "SHOP-2")) is None
    assert files.of(site, None) is None


def test_of_many_runs_only_some_are_kept(site):
    files, run = ChangedFiles(), run_of(site, "SHOP-1")
    assert run
    for number in range(MOST_KEPT + 3):
        gone = msgspec.structs.replace(run, run_id=f"run-{number}", workspace="/nonexistent/place")
        seen = files.of(site, gone)
        assert seen and seen.changes.kind == "gone"
    assert len(files._seen) == len(files._comparing) == MOST_KEPT
