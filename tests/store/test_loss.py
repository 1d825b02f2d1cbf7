"""Files that go away under an open store: noticed whatever happened to them, and nothing it held is lost."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from sortie.store import Store
from sortie.store.queries import events

from .sample import messages, noted


def replaced_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replaced_by(make):
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


HAPPENINGS = {
    "was deleted": Path.unlink,
    "was moved to": lambda path: path.rename(path.with_name("moved")),
    "was replaced by another file": replaced_by_a_copy,
    "was replaced by a link": replaced_by_a_link,
    "was replaced by a directory": replaced_by(Path.mkdir),
    "was replaced by a FIFO": replaced_by(os.mkfifo),
    "was cut short": lambda path: os.truncate(path, 0),
}


async def kept_in(path: Path) -> list[str]:
    async with Store.open(path, holder={}) as store:
        return messages(await store.read(events))


async def test_an_untouched_store_is_not_lost(store):
    await store.append(*[noted("x" * 500)] * 5000)
    assert not store.is_lost()


@pytest.mark.parametrize("happening", HAPPENINGS)
async def test_whatever_happens_to_the_database_is_noticed(path, happening):
    async with Store.open(path, holder={}) as store:
        HAPPENINGS[happening](path)
        assert store.is_lost()
        assert store.loss.startswith(f"{path} {happening}")


@pytest.mark.parametrize("happening", ["was deleted", "was replaced by another file", "was replaced by a FIFO"])
async def test_what_a_store_held_that_is_gone_is_saved_in_a_copy(path, happening):
    async with Store.open(path, holder={}) as store:
        await store.append(noted("before"))
        HAPPENINGS[happening](path)
        await store.append(noted("after"))
        assert store.is_lost()
        error = await store.lost()
    found = re.search(rf"All that it held is in (\S+): move that to {re.escape(str(path))}", error.fix)
    assert found, error
    copy = Path(found[1])
    assert copy.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    copy.rename(path)
    assert await kept_in(path) == ["before", "after"]


async def test_a_store_whose_directory_went_away_is_saved_above_it(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    async with Store.open(place / "sortie.db", holder={}) as store:
        await store.append(noted("kept"))
        shutil.rmtree(place)
        assert store.is_lost()
        error = await store.lost()
    (copy,) = tmp_path.iterdir()
    assert str(copy) in error.fix
    assert await kept_in(copy) == ["kept"]


async def test_a_store_that_was_moved_is_named_and_not_copied(path):
    async with Store.open(path, holder={}) as store:
        HAPPENINGS["was moved to"](path)
        await store.append(noted("after"))
        assert store.is_lost()
        error = await store.lost()
    assert f"Move {path.with_name('moved')} back" in error.fix
    assert not list(path.parent.glob("*rescued*"))
    path.with_name("moved").rename(path)
    assert await kept_in(path) == ["after"]


@pytest.mark.parametrize("part", ["-wal", "-shm", ".lock"])
async def test_a_part_that_is_deleted_alone_takes_nothing_with_it(path, part):
    """Also what was written afterwards, into a log that has no name any more, is found by the next."""
    async with Store.open(path, holder={}) as store:
        await store.append(noted("before"))
        path.with_name(path.name + part).unlink()
        await store.append(noted("after"))
        assert store.is_lost()
        assert store.loss == f"{path}{part} was deleted"
        error = await store.lost()
        assert "Nothing that it held is lost" in error.fix
    assert not list(path.parent.glob("*rescued*"))
    assert await kept_in(path) == ["before", "after"]


async def test_what_cannot_be_saved_is_said(path):
    async with Store.open(path, holder={}) as store:
        await store.append(*[noted("x" * 500)] * 1000)
    async with Store.open(path, holder={}) as store:
        os.truncate(path, 0)
        assert store.is_lost()
        assert "could not be saved" in (await store.lost()).fix
    assert not list(path.parent.glob("*rescued*"))
