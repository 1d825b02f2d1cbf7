"""What every measurement is given: where to work, the agent, and how thorough to be."""

from __future__ import annotations

from pathlib import Path

from .stamps import Program


class Bench:
    def __init__(self, root: Path, *, quick: bool) -> None:
        self.root = root
        self.quick = quick
        self.rounds = 1 if quick else 3
        self.program = Program(root)
