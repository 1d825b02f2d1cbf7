"""Opening: what is made, what is refused, and that every refusal is a sentence with the fix."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from sortie.errors import StoreError, StoreTooNew
from sortie.store import Store
from sortie.store.commands import add_commands
from sortie.store.connect import connect_readonly, connect_writer
from sortie.store.lock import holder_of
from sortie.store.queries import events, totals
from sortie.store.schema import APPLICATION_ID, MIGRATIONS

from .sample import claimed, ended, messages, noted

RUN_TOTALS = next(number for number, step in enumerate(MIGRATIONS, 1) if "CREATE TABLE run_totals" in step)


async def refused(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        async with Store.open(path, holder={}):
            raise AssertionError("opened")
    message = str(caught.value)
    assert str(path) in message
    assert caught.value.fix
    assert "\n" not in message
    return message


async def test_a_new_store_is_for_its_owner_only(path):
    old = os.umask(0)
    try:
        async with Store.open(path, holder={}) as store:
            await store.append(noted("x"))
            for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", ".lock"))):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    finally:
        os.umask(old)


async def test_a_store_others_could_read_is_closed_to_them(path):
    async with Store.open(path, holder={}):
        pass
    path.chmod(0o644)
    async with Store.open(path, holder={}):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_writer_is_durable_and_the_schema_strict(store, path):
    read = await store.read(lambda db: db.execute("PRAGMA journal_mode").fetchone())
    assert read == ("wal",)
    names = ("synchronous", "foreign_keys", "busy_timeout", "journal_size_limit")
    with closing(connect_writer(path)) as writing:
        settings = {name: writing.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
    assert settings == {
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "journal_size_limit": 16 * 2**20,
    }
    tables = await store.read(lambda db: db.execute("PRAGMA table_list").fetchall())
    assert all(strict for _, name, kind, _, _, strict in tables if not name.startswith("sqlite_"))


async def test_a_store_keeps_its_identity_and_its_contents(path, tmp_path):
    async with Store.open(path, holder={}) as store:
        first = store.store_id
        await store.append(noted("kept"))
    async with Store.open(path, holder={}) as store:
        assert store.store_id == first
        assert messages(await store.read(events)) == ["kept"]
    async with Store.open(tmp_path / "other.db", holder={}) as other:
        assert other.store_id != first
    assert len(first) == 32


async def test_a_store_of_every_earlier_version_is_brought_up_to_date(tmp_path):
    """With what it holds: the totals of the runs that ended before are there."""
    for version in range(1, len(MIGRATIONS)):
        path = tmp_path / f"{version}.db"
        with closing(sqlite3.connect(path)) as db:
            steps = "".join(
                f"{step} INSERT INTO schema_migrations VALUES ({number}, 'then');"
                for number, step in enumerate(MIGRATIONS[:version], 1)
            )
            db.executescript(f"PRAGMA application_id = {APPLICATION_ID}; {steps}")
            for number, status in enumerate(("failed", "failed", "succeeded")):
                db.execute(
                    """INSERT INTO run_history VALUES
                       (NULL, ?, '1', 'T-1', 1, 'command', '/w', '2026-03-30T10:00:00Z', '2026-03-30T10:00:05Z',
                        ?, NULL, 2, '', '', '', 1, 2, 3, 6, 0.5)""",
                    (f"r{number}", status),
                )
            if version >= RUN_TOTALS:  # from there on they were kept with each run
                db.execute(
                    """INSERT INTO run_totals
                       SELECT status, count(*), sum(turns), 5.0 * count(*), sum(input_tokens), sum(output_tokens),
                              sum(cache_read_tokens), sum(total_tokens), sum(cost_usd)
                       FROM run_history GROUP BY status"""
                )
            db.commit()
        unchanged = path.read_bytes()
        with closing(connect_readonly(path)) as looking:
            assert totals(looking).runs == {"failed": 2, "succeeded": 1}, "it can be looked at before"
        assert path.read_bytes() == unchanged
        with pytest.raises(StoreError, match="not up to date"):
            add_commands(path, "stop", ["1"])
        async with Store.open(path, holder={}) as store:
            before = await store.read(totals)
            assert before.runs == {"failed": 2, "succeeded": 1}
            assert (before.turns, before.seconds, before.tokens.total, before.cost_usd) == (6, 15.0, 18, 1.5)
            await store.append(claimed("2", "new"), ended("2", "new"), ended("2", "new"))
            assert (await store.read(totals)).runs == {"failed": 2, "succeeded": 2}


async def test_names_with_special_characters_are_names(tmp_path):
    path = tmp_path / "a b?mode=ro#%41.db"
    async with Store.open(path, holder={}) as store:
        await store.append(noted("x"))
    assert path.exists()


async def test_a_database_of_a_later_version_is_refused_and_left_alone(path):
    async with Store.open(path, holder={}):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO schema_migrations VALUES (?, 'later')", (len(MIGRATIONS) + 1,))
    with pytest.raises(StoreTooNew, match="later Sortie"):
        async with Store.open(path, holder={}):
            pass
    with pytest.raises(StoreTooNew, match="Upgrade Sortie"):
        connect_readonly(path)
    with pytest.raises(StoreTooNew):
        add_commands(path, "stop", ["1"])
    assert holder_of(path) is None


async def test_another_programs_database_is_refused_and_left_alone(path):
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE schema_migrations (version, applied_at); INSERT INTO schema_migrations VALUES (9, 0)"
        )
    assert "another program's database" in await refused(path)
    with pytest.raises(StoreError, match="another program's database"):
        connect_readonly(path)


async def test_an_interrupted_first_start_leaves_an_empty_file_that_is_no_obstacle(path):
    path.touch()
    with pytest.raises(StoreError, match="not complete"):
        connect_readonly(path)
    async with Store.open(path, holder={}) as store:
        await store.append(noted("x"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("SELECT max(version) FROM schema_migrations").fetchone() == (len(MIGRATIONS),)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_text("dear diary\n" * 100)
    assert "is not a database" in await refused(path)
    assert path.read_text().startswith("dear diary")
    with pytest.raises(StoreError, match="is not a database"):
        connect_readonly(path)


async def test_a_damaged_database_is_refused(path):
    async with Store.open(path, holder={}) as store:
        await store.append(*[noted("x" * 500)] * 200)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4096 * 3)
    assert "is damaged" in await refused(path)


async def test_damage_found_later_is_told_to_the_one_who_reads(path):
    async with Store.open(path, holder={}) as store:
        await store.append(*[noted("x" * 500)] * 2000)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 4096 * 20)
    async with Store.open(path, holder={}) as store:
        with pytest.raises(StoreError, match="is damaged"):
            await store.read(lambda db: events(db, limit=10_000))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
async def test_what_is_not_a_regular_file_is_refused_and_left_alone(path, make):
    make(path)
    before = path.stat().st_mode
    assert "is not a regular file" in await refused(path)
    assert path.stat().st_mode == before


@pytest.mark.parametrize("part", ["", "-wal", "-shm", "-journal"])
async def test_whoever_opens_a_store_waits_for_no_fifo(path, part):
    """SQLite would: before it is asked, everything it is going to open is a regular file, or not there."""
    path.touch()
    place = path.with_name(path.name + part)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    sentence = f"{place} is not a regular file"
    for open_it in (connect_readonly, connect_writer, lambda path: add_commands(path, "stop", ["1"])):
        with pytest.raises(StoreError, match=sentence) as caught:
            open_it(path)
        assert caught.value.fix


def test_a_device_is_not_opened(path):
    path.symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="is not a regular file"):
        connect_readonly(path)


async def test_a_missing_directory_is_named(tmp_path):
    assert "no such file or directory" in await refused(tmp_path / "nowhere" / "sortie.db")


def skip_if_permissions_do_not_bind(path: Path) -> None:
    if os.access(path, os.W_OK):
        pytest.skip("this user may write everywhere")


@pytest.mark.parametrize("mode", [0o400, 0o000])
async def test_a_file_that_cannot_be_written_is_refused(path, mode):
    async with Store.open(path, holder={}):
        pass
    path.chmod(mode)
    skip_if_permissions_do_not_bind(path)
    assert "writable" in await refused(path)


async def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    place = tmp_path / "place"
    place.mkdir(0o500)
    skip_if_permissions_do_not_bind(place)
    assert "permission denied" in await refused(place / "sortie.db")


def test_looking_at_a_store_that_is_not_there_creates_nothing(path):
    with pytest.raises(StoreError, match="There is no store"):
        connect_readonly(path)
    with pytest.raises(StoreError, match="Start `sortie run` first"):
        add_commands(path, "stop", ["1"])
    assert not path.exists()
    assert holder_of(path) is None
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("mode", [0o444, 0o644])
async def test_a_store_can_be_looked_at_where_nothing_can_be_written(mode):
    """By a user whom file modes bind, which they do not root."""
    place = Path(tempfile.mkdtemp(prefix="sortie-test-"))
    path = place / "sortie.db"
    try:
        async with Store.open(path, holder={}):
            pass
        path.chmod(mode)
        place.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", LOOKING, str(path)], capture_output=True, text=True, timeout=30
        )
        assert (done.returncode, done.stdout) == (0, "looked\n"), done.stderr
    finally:
        place.chmod(0o700)
        shutil.rmtree(place)


LOOKING = """
import os, sys
from pathlib import Path
from sortie.store.connect import connect_readonly
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
connect_readonly(Path(sys.argv[1]), print).execute("SELECT * FROM schema_migrations").fetchall()
print("looked")
"""
