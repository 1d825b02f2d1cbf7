"""The way in: `sortie` and `python -m sortie`.

The tool server starts once for every agent session, so it must not pay for what the other commands import.
"""

from __future__ import annotations

import sys


def main() -> int:
    if sys.argv[1:2] == ["mcp-server"]:
        from .tools.server import main as serve_tools

        return serve_tools(sys.argv[2:])
    from .cli.main import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
