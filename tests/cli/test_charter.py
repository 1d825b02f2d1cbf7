"""`sortie charter`: mistakes with their lines, contracts that are run, a text that only the maintainer changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sortie.process.process_table import look_up

from .scene import ask

PEOPLE = "| Maintainer | Rob |\n| Agent | alice |\n| Agent | bob |\n"
ROSTER = f"# C\n- Session ID: s1\n## Roster\n| Role | Agent |\n|--|--|\n{PEOPLE}"
LANES = (
    "## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| API | alice | `src/api/**` |\n| UI | bob | `src/ui/**` |\n"
)
CRITERIA = "## Acceptance criteria\n- it works\n"
SOUND = ROSTER + LANES + CRITERIA


def contract(command: str, status: str = "Draft", location: str = "`src/api/a.py`") -> str:
    head = "## Contracts\n| Contract | Location | Owner | Validation | Status |\n|--|--|--|--|--|\n"
    return head + f"| schema | {location} | alice | `{command}` | {status} |\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """With files, a work log, and no sign of an agent around us."""
    for name in ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI", "SORTIE_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("src/api/a.py", "src/ui/b.ts"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def charter(repository, capsys):
    """Runs `sortie charter` in the repository."""
    ask(capsys, "peers", "init", str(repository), "--agent", "alice", "--agent", "bob", "--maintainer", "Rob")
    (repository / "CHARTER.md").write_text(SOUND)

    def run(*arguments):
        return ask(capsys, "charter", *arguments, "--root", str(repository))

    return run


def worklog(repository: Path) -> str:
    return (repository / "WORKLOG.md").read_text()


# -- check ----------------------------------------------------------------------------------------------------


def test_a_sound_charter_ends_with_0(charter, repository):
    """LOG-08"""
    said = charter("check")
    assert said.code == 0, said.out
    assert "no error" in said.out
    assert charter("check", "--json").json()["valid"] is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SOUND.replace("src/ui/**", "src/**"),
            "error: CHARTER.md:13: src/api/a.py is in two lanes, “API” of alice",
        ),
        (
            SOUND.replace("| UI | bob", "| UI | carol"),
            "error: CHARTER.md:13: carol, the owner of the lane “UI”, is not in",
        ),
        (SOUND.replace("- it works", "- {WHAT}"), "error: CHARTER.md:15: {WHAT} is still to be filled in"),
        (SOUND.replace(CRITERIA, ""), "error: CHARTER.md: nothing says when the work is done"),
        (SOUND.replace("| Agent | bob", "| Agent | ALICE"), "error: CHARTER.md:8: ALICE differs from alice"),
        (SOUND + contract("true", location="gone.json"), "error: CHARTER.md:19: gone.json, where the contract"),
    ],
)
def test_every_mistake_is_told_with_its_line_and_ends_with_3(charter, repository, text, expected):
    """LOG-08 LOG-09"""
    (repository / "CHARTER.md").write_text(text)
    said = charter("check")
    assert said.code == 3
    assert expected in said.out
    told = charter("check", "--json").json()
    assert told["valid"] is False
    assert any(
        f"CHARTER.md:{each['line']}: {each['message']}".startswith(expected[7:]) or not each["line"]
        for each in told["errors"]
    )


def test_a_contract_that_holds_and_one_that_does_not(charter, repository):
    """LOG-09: the command is run at the root, and the end of what it prints is shown."""
    (repository / "CHARTER.md").write_text(SOUND + contract("test -e src/api/a.py"))
    said = charter("check")
    assert (said.code, "contract schema passed" in said.out) == (0, True)
    command = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done; echo the end; exit 7"
    (repository / "CHARTER.md").write_text(SOUND + contract(command))
    said = charter("check")
    assert said.code == 3
    assert "CHARTER.md:19: the contract “schema” does not hold" in said.out
    assert "exit code 7: the end" in said.out and "  line 3000\n" in said.out
    assert len(said.out.splitlines()) < 40
    (checked,) = charter("check", "--json").json()["contracts"]
    assert (checked["checked"], checked["command"]) == ("failed", command)
    assert len(checked["output"]) < 3000


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(charter, repository):
    """LOG-09"""
    (repository / "CHARTER.md").write_text(SOUND + contract("sleep 300 & echo $! > pid; wait"))
    said = charter("check", "--timeout", "1")
    assert said.code == 3
    assert "did not end within 1 s" in said.out
    left = look_up(int((repository / "pid").read_text()))
    assert left is None or left.ended


def test_a_command_sees_little_of_our_environment_and_is_no_person(charter, repository, monkeypatch):
    """LOG-09: neither our secrets, nor the right to decide."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    amend = f"{sys.executable} -m sortie charter amend --decision mine"
    (repository / "CHARTER.md").write_text(SOUND + contract(f"env > seen; {amend} 2> refused; true"))
    assert charter("adopt").code == 0
    (repository / "src/api/a.py").write_text("x")
    assert charter("check", "--run").code == 0
    seen = (repository / "seen").read_text()
    assert "s3cret" not in seen and "PATH=" in seen
    assert "Only a person writes as Rob" in (repository / "refused").read_text()


def test_nothing_is_run_where_that_is_not_wanted_or_nobody_decided(charter, repository):
    """LOG-09: whoever changed the file may have changed the commands."""
    (repository / "CHARTER.md").write_text(SOUND + contract("touch ran"))
    assert "not run: --no-run" in charter("check", "--no-run").out
    assert charter("adopt").code == 0
    (repository / "CHARTER.md").write_text(SOUND + contract("touch ran; touch more"))
    said = charter("check")
    assert said.code == 3 and "contract schema not run" in said.out
    assert not (repository / "ran").exists()
    charter("check", "--run")
    assert (repository / "ran").exists()


def test_a_contract_that_nobody_began_is_not_run(charter, repository):
    """LOG-09"""
    (repository / "CHARTER.md").write_text(SOUND + contract("false", status="Not started"))
    said = charter("check")
    assert (said.code, "contract schema not started" in said.out) == (0, True)


@pytest.mark.parametrize("what", ["missing", "directory", "fifo", "link", "huge"])
def test_what_cannot_be_read_ends_with_2(charter, repository, what):
    path = repository / "CHARTER.md"
    path.unlink()
    match what:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/etc/passwd")
        case "huge":
            with path.open("wb") as file:
                file.truncate(17 * 1024 * 1024)
    said = charter("check")
    assert said.code == 2, said
    assert "CHARTER.md" in said.err and "Traceback" not in said.err


def test_binary_rubbish_is_told_as_mistakes(charter, repository):
    (repository / "CHARTER.md").write_bytes(bytes(range(256)) * 100)
    said = charter("check")
    assert said.code == 3
    assert "not UTF-8" in said.out
    assert said.out.replace("\n", "").isprintable()


# -- decisions ------------------------------------------------------------------------------------------------


def test_only_a_recorded_decision_changes_the_charter(charter, repository):
    """LOG-08: adopted, changed, told, amended; each with one decision in the log."""
    assert charter("adopt", "--decision", "we agreed").code == 0
    changed = SOUND.replace("it works", "it works well")
    (repository / "CHARTER.md").write_text(changed)
    said = charter("check")
    assert said.code == 3
    assert "changed without a decision of the maintainer" in said.out and "charter amend" in said.out
    assert "+- it works well" in charter("show").out
    assert charter("amend", "--decision", "quality counts").code == 0
    assert charter("check").code == 0
    log = worklog(repository)
    assert log.count("- **Decision mode:** maintainer adjudication") == 2
    assert "we agreed" in log and "quality counts" in log
    again = charter("amend", "--decision", "once more")
    assert (again.code, "Nothing to do" in again.out) == (0, True)
    assert "once more" not in worklog(repository)


def test_a_new_text_comes_from_a_file(charter, repository, tmp_path):
    """LOG-08"""
    assert charter("adopt").code == 0
    new = repository / "new.md"
    new.write_text(SOUND.replace("it works", "it flies"))
    assert charter("amend", "--decision", "higher", "--file", str(new)).code == 0
    assert (repository / "CHARTER.md").read_text() == new.read_text()
    new.write_text("nonsense")
    before = worklog(repository)
    said = charter("amend", "--decision", "lower", "--file", str(new))
    assert (said.code, "Nothing was recorded" in said.err) == (3, True)
    assert worklog(repository) == before
    assert "it flies" in (repository / "CHARTER.md").read_text()


def test_no_agent_decides(charter, repository, monkeypatch):
    """LOG-08 LOG-05: inside of any run, and in the shell of a coding agent."""
    assert charter("adopt").code == 0
    before = worklog(repository)
    (repository / "CHARTER.md").write_text(SOUND.replace("bob", "eve"))
    for name in ("SORTIE_RUN_ID", "CLAUDECODE"):
        with monkeypatch.context() as inside:
            inside.setenv(name, "1")
            for words in (("amend", "--decision", "mine"), ("restore",), ("adopt",)):
                said = charter(*words)
                assert said.code == 1
                assert "Only a person writes as Rob" in said.err
    assert worklog(repository) == before


def test_the_adopted_text_is_shown_and_restored(charter, repository):
    """LOG-08"""
    nothing = charter("show", "--adopted")
    assert (nothing.code, "does not exist yet" in nothing.err) == (1, True)
    assert charter("adopt").code == 0
    (repository / "CHARTER.md").write_text("vandalised")
    argv = [sys.executable, "-m", "sortie", "charter", "show", "--adopted"]
    assert subprocess.run(argv, cwd=repository, capture_output=True, timeout=30).stdout == SOUND.encode()
    said = charter("restore")
    assert said.code == 0
    kept = said.out.split("kept in ")[1].strip()
    assert Path(kept).read_text() == "vandalised"
    assert (repository / "CHARTER.md").read_text() == SOUND
    assert "Nothing to do" in charter("restore").out


def test_a_draft_with_mistakes_is_not_adopted(charter, repository):
    """LOG-08"""
    (repository / "CHARTER.md").write_text(ROSTER)
    said = charter("adopt")
    assert said.code == 3
    assert "nothing says who owns which files" in said.err
    assert "amend" in charter("amend", "--decision", "x").err


def test_an_amendment_that_a_crash_cut_short_is_completed_by_the_next_command(charter, repository):
    """LOG-08: no second decision."""
    assert charter("adopt").code == 0
    state = repository / ".git/sortie"
    before = {path: path.read_bytes() for path in state.glob("CHARTER.md.*")}
    (repository / "CHARTER.md").write_text(SOUND.replace("it works", "it flies"))
    assert charter("amend", "--decision", "higher").code == 0
    for path, content in before.items():
        path.write_bytes(content)
    assert charter("check").code == 0
    assert b"charter 2 " in (state / "CHARTER.md.journal").read_bytes()
    assert worklog(repository).count("higher") == 1


def test_what_is_in_force_is_shown_to_people_and_programs(charter, repository):
    said = charter("show")
    assert said.code == 0
    assert "draft" in said.out and "src/api/**" in said.out and "[ ] it works" in said.out
    told = charter("show", "--json").json()
    assert told["charter"]["roster"]["agents"] == ["alice", "bob"]
    assert json.dumps(told)


def test_a_charter_to_begin_with(repository, capsys):
    """LOG-08: one command more than filling it in; what is there stays."""
    made = ask(capsys, "charter", "init", "--root", str(repository), "--agent", "alice", "--agent", "bob=codex")
    assert made.code == 0, made.err
    said = ask(capsys, "charter", "check", "--root", str(repository))
    assert said.code == 3 and "{FILES OF THIS LANE} is still to be filled in" in said.out
    again = ask(capsys, "charter", "init", "--root", str(repository), "--agent", "alice")
    assert (again.code, "is there already" in again.err) == (1, True)
