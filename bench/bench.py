"""What every measurement is given: where to work, the agent, how thorough to be; and who else used the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from .stamps import Program


class Others:
    """What other programs take of the machine from here on: where that is much, times mean little."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._taken = self._taken_by_others()

    def share(self) -> float:
        cores = len(os.sched_getaffinity(0))
        return max(self._taken_by_others() - self._taken, 0.0) / ((time.monotonic() - self._since) * cores)

    def _taken_by_others(self) -> float:
        """Seconds of CPU; ours are those of this process and of all below it that have ended."""
        user, nice, system, _, _, interrupts, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
        busy = (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
        return busy - sum(os.times()[:4])


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
