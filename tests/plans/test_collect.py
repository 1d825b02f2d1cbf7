"""The results of a plan that ran: one folder with exactly what was delivered, a manifest, and a page for people."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from functools import partial

import pytest

from sortie.errors import SortieError
from sortie.plans.collection_place import CollectionPlace

from ..cli.scene import ask
from .results_scene import contents, killed_at

DELIVERED = {
    "zeta/facts.txt",
    "zeta/data/table.csv",
    "zeta/summary.md",
    "alpha/report.md",
    "alpha/summary.md",
    "broken/error_report.md",
    "broken/partial/half.txt",
}


@pytest.fixture
def collect(ran, capsys):
    def run(*arguments):
        return ask(capsys, "plan", "collect", str(ran.plan), *arguments)

    return run


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def test_everything_that_was_delivered_is_in_one_folder_with_its_hash(ran, collect):
    """BOX-11, BOX-05, TBX-15: `consolidated/<agent>/…`, data/ included, workspace/ ignored; partial work and the
    report of a task that failed, but nothing else of it."""
    assert collect().code == 3
    folder = ran.root / "consolidated"
    found = contents(folder)
    assert found.keys() == DELIVERED | {"manifest.json", "summary.md"}
    assert found["alpha/report.md"] == (ran.root / "alpha/outbox/report.md").read_bytes()
    listed = manifest(folder)["files"]
    assert {file["path"] for file in listed} == DELIVERED
    for file in listed:
        content = found[file["path"]]
        assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        assert (file["agent"], file["attempt"]) == (file["path"].split("/")[0], 1)


def test_tasks_that_are_not_completed_are_listed_with_their_reasons(ran, collect):
    """BOX-11: nothing is left out silently."""
    answer = collect()
    tasks = {task["agent"]: task for task in manifest(ran.root / "consolidated")["tasks"]}
    assert list(tasks) == ["zeta", "alpha", "broken", "after"]
    assert {name: task["state"] for name, task in tasks.items()} == {
        "zeta": "completed",
        "alpha": "completed",
        "broken": "failed",
        "after": "blocked",
    }
    assert "Luck: none" in tasks["after"]["note"]
    assert "after is blocked: broken failed: Luck: none" in answer.err


def test_the_summary_shows_every_success_criterion_in_the_order_of_the_plan(ran, collect):
    """TBX-15: every `- [ ]/[x]`; the headings of an agent's own summary do not become ours."""
    collect()
    page = (ran.root / "consolidated/summary.md").read_text()
    assert re.findall(r"^- \[.\] .*$", page, re.M) == [
        "- [x] It is short",
        "- [ ] It is nice (not met)",
        "- [ ] It rhymes (not shown)",
        "- [x] All facts",
        "- [ ] It works (not shown)",
        "- [ ] Used (not shown)",
    ]
    assert re.findall(r"^#.*$", page, re.M) == [
        "# demo: results",
        "## To look at",
        "## Tasks",
        "### zeta: completed",
        "### alpha: completed",
        "### broken: failed",
        "### after: blocked",
    ]
    assert "> ## Tasks\n" in page
    assert "`zeta/facts.txt` (12 bytes)" in page
    criteria = manifest(ran.root / "consolidated")["tasks"][0]["success_criteria"]
    assert [one["met"] for one in criteria] == [True, False, None]


def test_the_same_results_make_the_same_manifest_apart_from_times(ran, collect):
    """TBX-15: deterministic."""
    documents = []
    for _ in range(2):
        collect()
        document = manifest(ran.root / "consolidated")
        assert document.pop("collected")
        documents.append(document)
    assert documents[0] == documents[1]


def grow(file):
    file.write_text("more than there was\n")


def rewrite(file):
    file.write_text("three FACTS\n")


def link(file):
    file.unlink()
    file.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("change", "why"), [(grow, "another size"), (rewrite, "another content"), (link, "symbolic link")]
)
def test_what_changed_since_its_task_was_completed_is_named_and_not_copied(ran, collect, change, why):
    """TBX-12, TBX-08: a copy is what was verified, or there is none."""
    change(ran.root / "zeta/outbox/facts.txt")
    answer = collect("--skip-unsafe")
    assert answer.code == 3
    assert "zeta/outbox/facts.txt is not collected: " in answer.err
    (changed,) = manifest(ran.root / "consolidated")["tasks"][0]["changed"]
    assert changed["path"] == "outbox/facts.txt"
    assert why in changed["why"]
    assert not (ran.root / "consolidated/zeta/facts.txt").exists()
    assert (ran.root / "consolidated/zeta/data/table.csv").exists()


def test_a_folder_that_is_gone_leaves_everything_missing_and_named(ran, collect):
    shutil.rmtree(ran.root / "zeta")
    assert collect().code == 3
    task = manifest(ran.root / "consolidated")["tasks"][0]
    assert [one["path"] for one in task["changed"]] == [
        "outbox/data/table.csv",
        "outbox/facts.txt",
        "outbox/summary.md",
    ]


def test_what_came_later_is_not_collected(ran, collect):
    (ran.root / "zeta/outbox/late.txt").write_text("late")
    assert "came after it was completed" in collect().err
    assert manifest(ran.root / "consolidated")["tasks"][0]["added"] == ["outbox/late.txt"]
    assert not (ran.root / "consolidated/zeta/late.txt").exists()


def fifo(outbox):
    os.mkfifo(outbox / "pipe")


def symlink(outbox):
    (outbox / "passwd").symlink_to("/etc/passwd")


def hard_link(outbox):
    os.link(outbox.parent / "SKILL.md", outbox / "skill")


def link_in_place_of_outbox(outbox):
    outbox.rename(outbox.with_name("elsewhere"))
    outbox.symlink_to("elsewhere")


def too_much(outbox):
    with (outbox / "huge").open("wb") as file:
        file.truncate(10 << 40)


@pytest.mark.parametrize("task", ["zeta", "broken"])
@pytest.mark.parametrize("spoil", [fifo, symlink, hard_link, link_in_place_of_outbox, too_much])
def test_an_unsafe_outbox_is_refused_unless_such_entries_are_skipped(ran, collect, task, spoil):
    """TBX-08: listed as refused, and the collection fails unless `--skip-unsafe`."""
    spoil(ran.root / task / "outbox")
    answer = collect()
    assert answer.code == 1
    assert f"{task}/outbox" in answer.err
    assert "--skip-unsafe" in answer.err
    assert not list(ran.root.glob("*consolidated*"))
    assert collect("--skip-unsafe").code == 3
    (found,) = [one for one in manifest(ran.root / "consolidated")["tasks"] if one["agent"] == task]
    assert found["refused"]
    assert not [path for path in (ran.root / "consolidated").rglob("*") if path.is_symlink() or path.is_fifo()]


def test_a_flat_collection_merges_what_does_not_differ(ran, collect):
    """TBX-15: flat only on request."""
    collect("--flat")
    assert contents(ran.root / "consolidated").keys() == {
        *("facts.txt", "data/table.csv", "report.md", "manifest.json", "summary.md"),
        *("_tasks/zeta/summary.md", "_tasks/alpha/summary.md"),
        *("_tasks/broken/error_report.md", "_tasks/broken/partial/half.txt"),
    }


# -- the place --------------------------------------------------------------------------------------------------


def test_an_earlier_collection_that_nobody_changed_is_replaced(ran, collect):
    collect()
    collect("--flat")
    assert [path.name for path in ran.root.glob("*consolidated*")] == ["consolidated"]
    assert (ran.root / "consolidated/facts.txt").exists()


def edit(folder):
    page = folder / "zeta/facts.txt"
    page.chmod(0o644)
    page.write_text("corrected by hand")


def add(folder):
    (folder / "notes.txt").write_text("mine")


def delete(folder):
    (folder / "zeta/facts.txt").unlink()


def edit_manifest(folder):
    page = folder / "manifest.json"
    page.chmod(0o644)
    page.write_text(page.read_text().replace('"Gather', '"Got').replace("Luck", "Fate"))


def edit_summary(folder):
    page = folder / "summary.md"
    page.chmod(0o644)
    page.write_text(page.read_text() + "\nSeen.\n")


@pytest.mark.parametrize("change", [edit, add, delete, edit_manifest, edit_summary])
def test_an_earlier_collection_that_somebody_changed_is_kept(ran, collect, change):
    """BOX-11: a person's edits are never lost."""
    collect()
    change(ran.root / "consolidated")
    before = contents(ran.root / "consolidated")
    for _ in range(2):
        answer = collect()
    assert "kept as" not in answer.out
    (kept,) = ran.root.glob("consolidated.*")
    assert contents(kept) == before
    assert contents(ran.root / "consolidated").keys() == DELIVERED | {"manifest.json", "summary.md"}


@pytest.mark.parametrize("make", ["file", "folder", "link"])
def test_what_is_no_collection_is_never_touched(ran, collect, tmp_path, make):
    target = tmp_path / "mine"
    real = tmp_path / "real"
    real.mkdir()
    if make == "file":
        target.write_text("mine")
    elif make == "folder":
        target.mkdir()
        (target / "manifest.json").write_text('{"format": "another"}')
    else:
        target.symlink_to(real)
    before = os.lstat(target)
    answer = collect("-o", str(target))
    assert answer.code == 1
    assert "is no collection of a plan" in answer.err
    assert os.lstat(target) == before
    assert not list(real.iterdir())
    assert not list(tmp_path.glob(".mine*"))


def test_an_empty_folder_may_be_named(ran, collect, tmp_path):
    (tmp_path / "out").mkdir()
    collect("-o", str(tmp_path / "out"))
    assert contents(tmp_path / "out").keys() == DELIVERED | {"manifest.json", "summary.md"}


def test_a_collection_that_fails_leaves_the_earlier_one_as_it_is(tmp_path):
    place = CollectionPlace(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt), place.build():
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with pytest.raises(SortieError, match="There is no directory"), CollectionPlace(tmp_path / "no/out").build():
        pass


def test_what_a_death_left_is_cleared_away_but_nothing_that_somebody_changed(ran, collect):
    """Killed between any two steps: the next collection puts everything right."""
    collect()
    shutil.copytree(ran.root / "consolidated", ran.root / ".consolidated.0123456789abcdef.new")
    shutil.copytree(ran.root / "consolidated", ran.root / ".consolidated.0123456789abcdea.old")
    add(shutil.copytree(ran.root / "consolidated", ran.root / ".consolidated.0123456789abcdeb.old"))
    collect()
    assert not list(ran.root.glob(".consolidated*"))
    (kept,) = ran.root.glob("consolidated.*")
    assert (kept / "notes.txt").read_text() == "mine"


def test_a_collection_that_is_killed_anywhere_leaves_the_earlier_one_or_the_new_one(tmp_path):
    """SIGKILL before every call of the kernel, then once more to the end; what is not as we wrote it is kept."""
    for step in range(1, 500):
        folder = tmp_path / str(step)
        folder.mkdir()
        put(folder, "first")
        ended = killed_at(step, partial(put, folder, "second"))
        now = (folder / "out/text").read_text() if (folder / "out").exists() else None
        assert now in (None, "first", "second")
        put(folder, "third")
        assert (folder / "out/text").read_text() == "third"
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
        assert "first" in [path.read_text() for path in folder.glob("out*/text")]
        if ended:
            return
    raise AssertionError("it never came to its end")


def put(folder, text):
    with CollectionPlace(folder / "out").build() as target:
        for name, content in (("text", text), ("manifest.json", json.dumps({"format": "sortie collection 1"}))):
            with open(name, "w", opener=lambda path, flags: os.open(path, flags, dir_fd=target)) as file:
                file.write(content)
