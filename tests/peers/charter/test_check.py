"""What is wrong with a charter is found with its line, against the real files of the repository."""

from __future__ import annotations

import os
import subprocess

import pytest

from sortie.peers.charter.charter import parse_charter
from sortie.peers.charter.check import Examination, examine_charter, files_of

SOUND = """\
# Session Charter
- Session ID: s1
## Roster
| Role | Agent |
|--|--|
| Maintainer | Rob |
| Agent | alice |
| Agent | bob |
## Lanes
| Lane | Owner | Files |
|--|--|--|
| API | alice | `src/api/**` |
| UI | bob | `src/ui/**` |
| log | shared | `WORKLOG.md` |
## Contracts
| Contract | Location | Owner | Validation | Status |
|--|--|--|--|--|
| schema | `src/api/schema.json` | alice | `true` | Locked |
## Governance
## Acceptance criteria
- it works
## Approval gates
## Conflict escalation
## Handshakes
"""
FILES = ["WORKLOG.md", "src/api/schema.json", "src/api/a.py", "src/ui/b.ts", "README.md"]


def examine(text: str, root, files=FILES) -> Examination:
    return examine_charter(parse_charter(text.encode()), root, files)


def told(found: Examination, severity: str = "error") -> list[tuple[int, str]]:
    return [(each.line, each.message) for each in found.remarks if each.severity == severity]


def test_a_sound_charter_has_no_remark(tmp_path):
    """LOG-08 LOG-09"""
    found = examine(SOUND, tmp_path)
    assert found.remarks == () and found.is_sound
    assert (found.files, found.unowned) == (5, 1)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (
            "`src/ui/**`",
            "`src/**`",
            13,
            ["src/api/schema.json and 1 more", "“API” of alice (line 12)", "“UI” of bob"],
        ),
        ("| UI | bob |", "| UI | bop |", 13, ["bop", "is not in the roster", 'did you mean "bob"?']),
        ("`src/api/schema.json` | alice", "`src/api/schema.json` | eve", 18, ["eve", "contract “schema”"]),
        ("`src/api/schema.json` | alice", "`src/api/schema.json` | bob", 18, ["lane of alice", "bob's"]),
        ("`src/api/schema.json` | alice", "`src/api/schema.json` |", 18, ["has no owner"]),
        ("`src/api/schema.json`", "`src/api/gone.json`", 18, ["src/api/gone.json", "does not exist"]),
        ("`src/api/schema.json`", "`src/api/*.yaml`", 18, ["src/api/*.yaml", "does not exist"]),
        ("- it works\n", "", 0, ["nothing says when the work is done"]),
        ("- it works\n", "- {WHAT}\n", 21, ["{WHAT} is still to be filled in"]),
        (
            "| API | alice | `src/api/**` |\n| UI | bob | `src/ui/**` |\n",
            "| x | bob | `**` |\n",
            12,
            ["WORKLOG.md is everybody's"],
        ),
        ("| Agent | bob |", "| Agent | Alice |", 8, ["upper and lower case alone"]),
        ("- Session ID: s1\n", "", 0, ["no Session ID"]),
    ],
)
def test_every_mistake_is_found_with_its_line(tmp_path, old, new, line, words):
    """LOG-08 LOG-09"""
    assert old in SOUND
    found = told(examine(SOUND.replace(old, new), tmp_path))
    assert [at for at, message in found if all(word in message for word in words)] == [line]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("`src/ui/**`", "`*.ts`", 13, ["no file is in the lane “UI” yet", "**/*.ts is any"]),
        ("| Locked", "| Nearly", 18, ["the status “Nearly”"]),
        ("`true`", "none", 18, ["has no validation command"]),
        ("## Handshakes\n", "", 0, ["no section about handshakes"]),
        ("| UI | bob | `src/ui/**` |\n", "", 8, ["bob owns no lane"]),
    ],
)
def test_what_may_be_right_is_a_warning(tmp_path, old, new, line, words):
    assert old in SOUND
    found = examine(SOUND.replace(old, new), tmp_path)
    assert found.is_sound, found
    assert [at for at, message in told(found, "warning") if all(word in message for word in words)] == [line]


def test_lanes_of_one_owner_may_meet_and_an_exception_parts_two(tmp_path):
    """LOG-08"""
    assert examine(SOUND.replace("| UI | bob | `src/ui/**` |", "| More | alice | `src/**` |"), tmp_path).is_sound
    parted = SOUND.replace("`src/api/**`", "`src/**`, `!src/ui/**`")
    assert examine(parted, tmp_path).is_sound


def test_a_contract_that_nobody_began_need_not_exist(tmp_path):
    """LOG-09"""
    text = SOUND.replace("`src/api/schema.json`", "`gone.json`").replace("| Locked", "| Not started")
    assert examine(text, tmp_path).is_sound


def test_a_contract_may_be_a_file_that_git_ignores_or_a_directory(tmp_path):
    """LOG-09"""
    (tmp_path / "generated.json").touch()
    assert examine(SOUND.replace("`src/api/schema.json`", "`generated.json`"), tmp_path).is_sound
    assert examine(SOUND.replace("`src/api/schema.json`", "`src/api/`"), tmp_path).is_sound


# -- the files of a repository ------------------------------------------------------------------------------------


def git(root, *arguments, **options):
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, **options)


def test_the_files_are_those_that_git_knows_or_could_know(tmp_path):
    """LOG-08"""
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("tracked.py", "new.py", "noise.log", "ä\nö.py"):
        (tmp_path / name).touch()
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    git(tmp_path, "add", "tracked.py")
    assert sorted(files_of(tmp_path)) == sorted(
        [".gitignore", "tracked.py", "new.py", "ä\nö.py", os.fsdecode(b"caf\xe9")]
    )


def test_without_a_repository_all_files_count(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / ".sortie").mkdir()
    (tmp_path / ".sortie/x").touch()
    assert files_of(tmp_path) == ["a/b"]


@pytest.mark.timeout(60)
def test_a_hundred_thousand_files_and_two_hundred_lanes(tmp_path):
    """LOG-08: in bounded time, with a real index."""
    git(tmp_path, "init")
    empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    names = [f"src/part{number % 200}/deep/er/file{number}.py" for number in range(100_000)]
    listing = "".join(f"100644 {empty} 0\t{name}\n" for name in names)
    git(tmp_path, "update-index", "--index-info", input=listing.encode())
    files = files_of(tmp_path)
    assert len(files) == 100_000
    rows = "".join(f"| l{number} | alice | `src/part{number}/**/*.py` |\n" for number in range(200))
    text = SOUND.replace("| API | alice | `src/api/**` |\n", rows).replace("`src/ui/**`", "`**/file7*7.py`")
    found = examine(text, tmp_path, files)
    meeting = [message for _, message in told(found) if "two lanes" in message]
    assert len(meeting) == 20 and all("of bob" in message for message in meeting)
