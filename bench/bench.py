"""What every measurement is given: where to work, the agent, and how thorough to be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from .stamps import Program


class Bench:
    def __init__(self, root: Path, *, quick: bool) -> None:
        self.root = root
        self.quick = quick
        self.rounds = 1 if quick else 3
        self.program = Program(root)

    def repeated(self) -> Iterator[int]:
        """Up to three rounds, as long as a machine with other things to do still gets through them."""
        give_up = time.monotonic() + 45
        for n in range(self.rounds):
            yield n
            if time.monotonic() > give_up:
                return
