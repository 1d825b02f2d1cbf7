"""The way in: `sortie` and `python -m sortie`.

The tool server starts once for every agent session, so it must not pay for what the other commands import.
"""

from __future__ import annotations

import gc
import sys


def main() -> int:
    if sys.argv[1:2] == ["mcp-server"]:
        from .tools.server import main as serve_tools

        return serve_tools(sys.argv[2:])
    gc.disable()  # until the command is loaded: what imports make stays, and looking through it is slow
    from .cli.main import main as run_command

    try:
        return run_command()
    finally:
        gc.freeze()  # the end of the process drops everything anyway, so it need not look for what is garbage


if __name__ == "__main__":
    sys.exit(main())
