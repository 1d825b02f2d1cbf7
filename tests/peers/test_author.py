"""Who a process writes as: whatever it says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister

from .people import PYTHON, as_a_person

ASK = """
import sys, msgspec
from pathlib import Path
from sortie.peers.author import AuthorityError, author_of_process
from sortie.peers.place import place_at
try:
    author = author_of_process(place_at(Path(sys.argv[1])), sys.argv[2], maintainer="Mira")
    print(msgspec.json.encode(author).decode())
except AuthorityError as error:
    print("refused:", error)
"""
# The orchestrator of a turn that goes on, and a process below it that bears no mark at all.
IN_A_TURN = """
import subprocess, sys
from pathlib import Path
from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister
TurnRegister(place_at(Path(sys.argv[1]))).begin(agent="Alice", kind="work", began=3.0, run_id="run-c")
subprocess.run(sys.argv[2:])
"""
# A process below so many others.
DEEP = """
import os, sys
for _ in range(int(sys.argv[1])):
    if child := os.fork():
        os.waitpid(child, 0)
        os._exit(0)
os.execv(sys.argv[2], sys.argv[2:])
"""
ALICE = ("Alice", "agent", "run-a")
REFUSED = "refused"


class Scene:
    def __init__(self, root: Path) -> None:
        self._root = root
        register = TurnRegister(place_at(root))
        for agent, run_id in (("Alice", "run-a"), ("Bob", "run-b")):
            turn = register.begin(agent=agent, kind="implement", began=1.0, run_id=run_id)
            register.end(turn.number, "succeeded", 2.0)

    def command(self, wanted: str = "") -> list[str]:
        return [PYTHON, "-c", ASK, str(self._root), wanted]

    def asked(self, wanted: str = "", *, through: str = "", of_run=None, **env: str) -> tuple[str, ...] | str:
        """The author, or the refusal. `through` is a shell command in which `$@` stands for the question."""
        command = self.command(wanted)
        if through:
            command = ["sh", "-c", f"{through}; exit $?", "sh", *command]
        said = as_a_person(command, env, of_run=of_run)
        if said.startswith("refused: "):
            return said
        author = json.loads(said)
        return author["name"], author["role"], author.get("run_id", "")


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def test_a_person_is_the_maintainer_or_who_they_say(scene):
    assert scene.asked() == ("Mira", "maintainer", "")
    assert scene.asked("mira") == ("Mira", "maintainer", "")
    assert scene.asked("Carol") == ("Carol", "agent", "")


def test_in_a_turn_it_is_its_agent_and_nobody_else(scene):
    """LOG-05: an agent cannot write as another agent, nor as the maintainer."""
    assert scene.asked(SORTIE_RUN_ID="run-a") == ALICE
    assert scene.asked("alice", SORTIE_RUN_ID="run-a") == ALICE
    for name, fix in (
        ("Bob", "Leave out the name: the turn says who is writing."),
        ("mira", "Only Mira can, with a command of their own, outside of any turn."),
    ):
        said = scene.asked(name, SORTIE_RUN_ID="run-a")
        assert said == f"refused: This is a turn of Alice, who cannot write as {name}. {fix}\n"


@pytest.mark.parametrize(
    "through", ['env -u SORTIE_RUN_ID "$@"', 'env -i PYTHONPATH=$PYTHONPATH "$@"', 'SORTIE_RUN_ID=run-b "$@"']
)
def test_a_mark_that_an_agent_drops_or_forges_is_found_above(scene, through):
    """LOG-05: what a command is started with does not decide; the process that the turn began with does."""
    assert scene.asked(through=through, SORTIE_RUN_ID="run-a") == ALICE


def test_who_left_everybody_above_is_known_by_the_limit(scene):
    """LOG-05: a process that went into the background and cleaned its environment is still of its turn."""
    assert scene.asked(of_run=("store", "run-a")) == ALICE
    assert scene.asked(of_run=("store", "run-a"), SORTIE_RUN_ID="run-b") == ALICE


@pytest.mark.parametrize("wanted", ["", "Mira", "Bob"])
def test_who_took_off_every_mark_is_known_by_the_orchestrator_above(scene, tmp_path, wanted):
    """LOG-05: what an agent let loose becomes a child of the orchestrator of its turn, and no maintainer."""
    said = as_a_person([PYTHON, "-c", IN_A_TURN, str(tmp_path), *scene.command(wanted)])
    if wanted:
        assert said.startswith(f"refused: This is a turn of Alice, who cannot write as {wanted}.")
    else:
        assert json.loads(said) == {"name": "Alice", "role": "agent", "run_id": "run-c"}


def test_who_hides_below_very_many_processes_is_not_the_maintainer(scene):
    for name in ("", "Bob"):
        assert "nobody can tell whose it is" in as_a_person([PYTHON, "-c", DEEP, "260", *scene.command(name)])
    assert json.loads(as_a_person([PYTHON, "-c", DEEP, "20", *scene.command()]))["role"] == "maintainer"


@pytest.mark.parametrize("marks", [{"SORTIE_RUN_ID": "run-x"}, {"of_run": ("store", "run-x")}])
def test_a_run_that_is_no_turn_is_whoever_it_says_but_never_the_maintainer(scene, marks):
    assert scene.asked("Carol", **marks) == ("Carol", "agent", marks.get("SORTIE_RUN_ID", ""))
    assert "does not say who is writing. Say which agent it is with `--as NAME`" in scene.asked(**marks)
    assert "Only a person writes as Mira, and this command runs inside a run of Sortie" in scene.asked(
        "MIRA", **marks
    )


@pytest.mark.parametrize("mark", ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI"])
def test_the_shell_of_a_coding_agent_is_not_the_maintainer(scene, mark):
    """Only the maintainer's own command records a maintainer decision; it says how that is done."""
    assert scene.asked("Carol", **{mark: "1"}) == ("Carol", "agent", "")
    said = scene.asked("Mira", **{mark: "1"})
    assert said.startswith("refused: Only a person writes as Mira, and this command runs inside ")
    assert said.endswith("Mira runs it in a terminal of their own, outside of any agent.\n")
    assert scene.asked(**{mark: "1"}).startswith(REFUSED)
