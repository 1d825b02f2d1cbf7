"""The process that serves the dashboard, started by the service: `python -m sortie.web PARENT`.

It reads from standard input first what to serve, then the present state, line by line; it ends when that ends.
"""

from __future__ import annotations

import os
import sys

from ..process.parent import end_with

# On a machine that has too much to do the service comes first, however many look at it.
NICENESS = 5


def main() -> None:
    end_with(int(sys.argv[1]))
    os.nice(NICENESS)
    from .server import serve_service  # takes a while, and the parent may end meanwhile

    serve_service(open(0, "rb", closefd=False))  # noqa: SIM115 - a thread reads from it to the end
    sys.stderr.flush()
    # That thread waits for a line, and would keep the interpreter from ending.
    os._exit(0)


if __name__ == "__main__":
    main()
