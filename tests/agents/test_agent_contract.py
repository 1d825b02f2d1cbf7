"""Our own agents keep the contract, each with a stand-in for its program; one that breaks it is found out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sortie.agents.acp.acp import AcpAgent
from sortie.agents.agent import AgentSettings
from sortie.agents.claude.claude_code import ClaudeCode
from sortie.agents.cli_agent import CliAgent
from sortie.agents.command import CommandAgent, CommandSession
from sortie.agents.command_line import start_command
from sortie.agents.copilot.copilot_cli import CopilotCli
from sortie.agents.gemini.gemini import Gemini
from sortie.agents.mock import MockAgent
from sortie.agents.opencode.opencode import OpenCode
from sortie.errors import AgentError
from sortie.testing import AgentContract
from sortie.testing.agent_contract import Deed, Lab

from .playing import TRANSCRIPTS

SCRIPTS = {
    "works": "cat > {directory}/received; echo done",
    "fails": "echo no luck; exit 3",
    "hangs": "setsid sleep 600 & sleep 600 & echo at work; wait",
}
TURNS = {
    "works": {"lines": ["done"]},
    "fails": {"outcome": "failed"},
    "hangs": {"outcome": "hang", "lines": ["at work"]},
}

# Plays a recording: all of it, one of a failure, or all but the event that ends the turn.
PLAYER = """\
#!/bin/sh
case " $* " in
*" --version "*) echo {version}; exit ;;
*" session list "*) echo '[{{"id": "ses_e204d5989ffe0tev0BBKbtBVKr", "directory": "'"$PWD"'"}}]'; exit ;;
esac
case {deed} in
works) cat > {directory}/received; cat {recordings}-ok.jsonl ;;
fails) cat {recordings}-401.jsonl; exit 1 ;;
hangs) setsid sleep 600 & sleep 600 & head -n -1 {recordings}-ok.jsonl; wait ;;
esac
"""
ACP_STAND_IN = Path(__file__).with_name("acp_stand_in.py")


class TestCommand(AgentContract):
    agent = CommandAgent

    def settings(self, directory: Path, deed: Deed) -> AgentSettings:
        command = SCRIPTS[deed].format(directory=shlex.quote(str(directory)))
        return AgentSettings(kind="command", command=command, base=directory)


class TestMock(AgentContract):
    agent = MockAgent
    has_process = False

    def settings(self, directory: Path, deed: Deed) -> AgentSettings:
        return AgentSettings(kind="mock", options={"turns": [TURNS[deed]]})


class PlaysRecordings(AgentContract):
    agent: ClassVar[type[CliAgent[Any]]]
    recordings: ClassVar[str]

    def settings(self, directory: Path, deed: Deed) -> AgentSettings:
        program = directory / deed
        program.write_text(
            PLAYER.format(
                deed=deed,
                directory=shlex.quote(str(directory)),
                recordings=shlex.quote(str(TRANSCRIPTS / self.recordings)),
                version=self.agent.program.tested[1],
            )
        )
        program.chmod(0o755)
        return AgentSettings(kind=self.agent.kind, command=shlex.quote(str(program)), base=directory)


class TestClaudeCode(PlaysRecordings):
    agent = ClaudeCode
    recordings = "claude"


class TestCopilotCli(PlaysRecordings):
    agent = CopilotCli
    recordings = "copilot"


class TestGemini(PlaysRecordings):
    agent = Gemini
    recordings = "gemini"


class TestOpenCode(PlaysRecordings):
    agent = OpenCode
    recordings = "opencode"


class TestAcp(AgentContract):
    agent = AcpAgent

    def settings(self, directory: Path, deed: Deed) -> AgentSettings:
        words = [sys.executable, str(ACP_STAND_IN), deed, str(directory / "received")]
        return AgentSettings(kind="acp", command=shlex.join(words), base=directory)


# -- and whoever does not keep it -----------------------------------------------------------------------------


class Hasty(CommandSession):
    """Sends the prompt before the process is on record."""

    async def turn(self, prompt, number):
        child = self._child = await start_command(self._command, (), self._order, self._environment)
        await child.feed(prompt.encode())
        await self._reporter.process_started(child.identity)
        await child.wait()


class Idle(CommandSession):
    """Leaves its process alone when it is closed."""

    async def close(self):
        pass


class Silent(CommandSession):
    """Does not say how a turn ended."""

    async def turn(self, prompt, number):
        child = self._child = await start_command(self._command, (), self._order, self._environment)
        await self._reporter.process_started(child.identity)
        await child.feed(prompt.encode())
        await child.wait()


class Inventive(CommandSession):
    """Fails in a way that nobody knows."""

    async def turn(self, prompt, number):
        raise AgentError("out_of_luck", "It did not work.")


@pytest.mark.parametrize(
    ("flawed", "noticed_by"),
    [
        (Hasty, "test_no_byte_is_exchanged_before_the_process_is_on_record"),
        (Idle, "test_a_turn_that_is_cancelled_leaves_no_process_once_it_is_closed"),
        (Silent, "test_each_turn_is_told_to_its_end"),
        (Inventive, "test_a_turn_that_fails_raises_an_error_of_a_known_kind"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_an_agent_that_breaks_its_word_is_found_out(tmp_path, flawed, noticed_by):
    opened: list[CommandSession] = []

    class Flawed(CommandAgent):
        async def open(self, order, reporter):
            session = await super().open(order, reporter)
            opened.append(flawed(session._command, order, session._environment, reporter))
            return opened[-1]

    contract = TestCommand()
    contract.agent = Flawed  # type: ignore[misc]
    with Lab(contract, tmp_path) as lab, pytest.raises(AssertionError):
        await getattr(contract, noticed_by)(lab)
    for session in opened:
        await CommandSession.close(session)
