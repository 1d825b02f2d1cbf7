"""Trackers are found by kind: ours, and those of other packages."""

from __future__ import annotations

import pytest

from sortie.errors import ConfigurationError
from sortie.plugins import Kinds, kinds, load_plugin
from sortie.plugins import load_tracker as load
from sortie.trackers.file import FileTracker


def test_the_file_tracker_is_built_in():
    assert "file" in kinds()["tracker"]
    assert load("file") is FileTracker


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match=r'There is no tracker of kind "fle"\. Use one of: .*file'):
        load("fle")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package of somebody else, as an installer leaves it."""
    metadata = tmp_path / "other_tracker-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-tracker\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[sortie.trackers]\nother = other_tracker:Other\nfile = other_tracker:Other\n"
        "missing = no_such_package:Tracker\nrenamed = other_tracker:Gone\n"
    )
    (tmp_path / "other_tracker.py").write_text("class Other: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_a_tracker_of_another_package_is_found_by_its_entry_point():
    assert {"file", "missing", "other", "renamed"} <= set(kinds()["tracker"])
    assert load("other").__name__ == "Other"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("installed")
def test_our_own_kinds_cannot_be_taken_over():
    assert load("file") is FileTracker


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", ["missing", "renamed"])
def test_a_package_that_cannot_be_imported_is_named(kind):
    with pytest.raises(ConfigurationError, match=f'kind "{kind}" cannot be loaded from .* Install or repair'):
        load(kind)


def test_a_group_without_entry_points_has_the_built_in_kinds():
    assert [*Kinds("sortie.nothings", {"b": "x:y", "a": "x:y"})] == ["a", "b"]
    assert load_plugin("sortie.nothings", {"p": "pathlib:Path"}, "p").__name__ == "Path"
