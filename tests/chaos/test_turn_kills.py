"""Turns whose orchestrators are killed at any moment: whatever was begun is told once, and nothing of it lives on.

SORTIE_CHAOS_SEED repeats a run with the same choices; the timing of the machine stays its own. SORTIE_CHAOS_TURNS
is how many orchestrators are killed in each part, where more than usual are wanted.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sortie.peers.shared_document import SharedDocument
from sortie.process.identity import RUN_MARK, mark_of
from tests.e2e.peer_project import PeerProject

from .plan_orchestrators import Forge, Orchestrator

KILLS = int(os.environ.get("SORTIE_CHAOS_TURNS", "16"))
PARTS = 3
DEADLINE = 60.0
# Seconds after its start at which an orchestrator is killed, at the latest: a whole turn takes about as long.
LATEST = 1.6
AGENT = """\
say "began $SORTIE_ISSUE_ID"
echo "$SORTIE_ISSUE_ID" >> src/work.txt
printf '\\n### 2026-11-18T05:00:00Z — %s: Note of %s\\n\\nBy hand.\\n' {agent} "$SORTIE_ISSUE_ID" >> WORKLOG.md
sleep 0.{pause}
{trespass}
say "ended $SORTIE_ISSUE_ID"
"""


class Scene(PeerProject):
    def __init__(self, base: Path, forge: Forge, chance: random.Random) -> None:
        super().__init__(base)
        self.chance = chance
        self.forge = forge
        self.asked = 0
        self.settings(violations=chance.choice(["report", "revert"]))
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "settings")
        variables = ("DIARY", "AGENTS", "PYTHONPATH", "GIT_CONFIG_GLOBAL")
        self._environ = {name: self.environment[name] for name in variables}

    def begin(self) -> Orchestrator:
        """A turn of somebody, with a task of its own."""
        self.asked += 1
        agent = self.chance.choice(["Alice", "Bob"])
        trespass = self.chance.choice(["true", "echo x >> web/page.js", "rm -f src/api.py; echo y > web/new.js"])
        pause = self.chance.choice(["0", "05", "2"])
        self.script(agent, AGENT.format(agent=agent, pause=pause, trespass=trespass))
        words = ["turn", agent, "--task", f"task {self.asked}."]
        return self.forge.command(words, self.root, self.base / "said", self._environ)

    def disturb(self) -> str:
        """A turn whose orchestrator is killed; the answer is how far it was."""
        turn = self.begin()
        if turn.has_ended(self.chance.uniform(0.0, LATEST)):
            turn.wait(DEADLINE)
            return "too late"
        turn.send_signal(signal.SIGKILL)
        turn.wait(DEADLINE)
        last = self.turns()[-1] if self.turns() else None
        if last is None or last.task != f"task {self.asked}.":
            return "before its turn"
        return "at its end" if last.after else "at work" if last.run_id else "at its beginning"

    def undisturbed(self) -> None:
        turn = self.begin()
        code = turn.wait(DEADLINE)
        assert code in (0, 3), f"exit code {code}\n{self.said()}"


@pytest.fixture(scope="module")
def forge(tmp_path_factory) -> Iterator[Forge]:
    made = Forge(tmp_path_factory.mktemp("forge"))
    yield made
    made.close()


@pytest.mark.timeout(900)
def test_every_turn_is_told_once_whoever_is_killed_when(tmp_path, forge):
    """LOG-14: claimed once, ended once; nobody lives on; nothing is run again; the checkout is whole."""
    seed = os.environ.get("SORTIE_CHAOS_SEED") or secrets.token_hex(4)
    print(f"SORTIE_CHAOS_SEED={seed}")

    def part(number: int) -> Counter[str]:
        scene = Scene(tmp_path / f"{number}", forge, random.Random(f"{seed} {number}"))
        try:
            found = Counter[str]()
            while found.total() - found["too late"] < KILLS:
                found[scene.disturb()] += 1
            scene.undisturbed()
            assert_sound(scene)
            return found
        finally:
            scene.clean_up()

    with ThreadPoolExecutor(PARTS) as pool:
        hits = sum(pool.map(part, range(PARTS)), Counter[str]())
    print(f"killed: {dict(hits)}")
    assert hits.total() - hits["too late"] >= KILLS * PARTS
    assert hits["at work"], "no turn was hit while its agent worked"


def assert_sound(scene: Scene) -> None:
    turns, log = scene.turns(), scene.file("WORKLOG.md")
    assert [turn.number for turn in turns] == [*range(1, len(turns) + 1)]
    assert all(turn.outcome for turn in turns), turns
    keys = Counter(record.key for record in SharedDocument(scene.place.worklog).records() if record.key)
    assert max(keys.values()) == 1, keys
    for turn in turns:
        claimed = log.count(f": Claimed: {turn.task}\n")
        told = [word for word in ("claimed", "ended") if f"turn {turn.number} {turn.began:.3f} {word}" in keys]
        assert claimed == ("claimed" in told), (turn, claimed)
        ended = sum(
            log.count(f"{words}\n")
            for words in (
                f": Handoff: {turn.task}",
                f"Turn {turn.number} of {turn.agent} was interrupted",
                f"Turn {turn.number} of {turn.agent} did not begin",
                f": Escalation: Turn {turn.number} of {turn.agent}: {turn.task}",
            )
        )
        assert ended == 1, (turn, ended, scene.said()[-3000:])
    written = scene.root / "src" / "work.txt"  # what Bob writes there may be taken back
    work = written.read_text().split() if written.exists() else []
    assert max(Counter(work).values(), default=0) <= 1, "a turn that was cut short is not taken again"
    for line in scene.diary():
        word, name = line.split()
        assert scene.diary().count(line) == 1, f"{name} {word} twice"
    assert scene.living() == []
    assert not [pid for pid in scene.living() if mark_of(pid, RUN_MARK)]
    for agent in ("Alice", "Bob"):
        assert f"Now Working ({agent}): idle\n" in log
    scene.git("fsck", "--no-dangling")
    scene.git("status", "--short")
    assert not (scene.root / ".git" / "index.lock").exists()
    leftovers = [path.name for path in (scene.place.state / "snapshots").glob("index.tmp-*")]
    assert leftovers == []
