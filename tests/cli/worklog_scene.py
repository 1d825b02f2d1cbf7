"""A checkout with a charter and a work log, and `sortie worklog` run in it, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sortie.cli.main import main
from sortie.peers.worklog.log import Worklog
from sortie.peers.worklog.parse import parse

# What programs that run models put into the environment of their shells: with these nobody is a person.
AGENT_MARKS = ("SORTIE_RUN_ID", "CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI")

CHARTER = """\
# Session Charter

- **Session ID:** S-7

## Roster

| Role | Agent | Model/Provider | Lane |
|---|---|---|---|
| Builder | Alice | x | parser |
| Builder | Bob | x | lexer |
| Maintainer | Mira | human | all |
"""


class Said:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Checkout:
    def __init__(self, root: Path, capsys: Any) -> None:
        self.root = root
        self.path = root / "WORKLOG.md"
        self._capsys = capsys
        (root / "CHARTER.md").write_text(CHARTER)

    def say(self, *arguments: str) -> Said:
        """Whatever it says was said by this command."""
        self._capsys.readouterr()
        code = main(["worklog", *arguments, "--root", str(self.root)])
        printed = self._capsys.readouterr()
        return Said(code, printed.out, printed.err)

    def done(self, *arguments: str) -> Said:
        said = self.say(*arguments)
        assert said.code == 0, said.err
        return said

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def log(self) -> Worklog:
        return parse(self.path.read_bytes())
