"""An agent for `robot`, which reads its prompt on standard input and prints one JSON object on each line."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from sortie import AgentError
from sortie.agents.agent import AgentEvent, Said
from sortie.agents.per_turn import Invocation, PerTurnAgent, Turn
from sortie.agents.program import Program
from sortie.agents.turn_reader import TurnReader, decode


class RobotOptions(Struct, frozen=True, kw_only=True):
    model: str = "small"


class RobotLine(Struct, frozen=True):
    type: str
    text: str = ""


class RobotReader(TurnReader):
    def events(self, line: bytes) -> Iterator[AgentEvent]:
        match decode(line, RobotLine):
            case RobotLine("conversation", name):
                self.session_id = name
            case RobotLine("message", text):
                yield Said(text)
            case RobotLine("error", text):
                self.failure = AgentError(AgentError.TURN_FAILED, text)
            case RobotLine("end"):
                self.finished = True


class Robot(PerTurnAgent[RobotOptions]):
    kind = "robot"
    program = Program(name="Robot", command="robot", install="pipx install robot", tested=("1.0", "1.2"))
    options_type = RobotOptions
    keys = ("ROBOT_API_KEY",)
    login_fix = "Set ROBOT_API_KEY."

    def invocation(self, turn: Turn) -> Invocation:
        resume = ["--resume", turn.session_id] if turn.session_id else []
        return Invocation(arguments=["--json", "--model", self.options.model, *resume], stdin=turn.prompt)

    def reader(self, turn: Turn) -> RobotReader:
        return RobotReader(turn.session_id)
