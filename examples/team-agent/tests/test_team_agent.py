"""The robot keeps the contract of every agent, with a shell script in the place of its program."""

from __future__ import annotations

from team_agent import Robot

from sortie import AgentSettings
from sortie.testing import AgentContract

SAY_HELLO = """echo '{"type": "conversation", "text": "talk-1"}'; echo '{"type": "message", "text": "At work."}'"""
DEEDS = {
    "works": f"""cat > {{directory}}/received; {SAY_HELLO}; echo '{{"type": "end"}}'""",
    "fails": """echo '{"type": "error", "text": "Out of luck."}'; exit 1""",
    "hangs": f"sleep 600 & {SAY_HELLO}; wait",
}


class TestRobot(AgentContract):
    agent = Robot

    def settings(self, directory, deed):
        program = directory / "robot"
        program.write_text("#!/bin/sh\n" + DEEDS[deed].replace("{directory}", str(directory)))
        program.chmod(0o755)
        return AgentSettings(kind="robot", command=str(program))
