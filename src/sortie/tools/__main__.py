"""`python -m sortie.tools --workflow PATH` is `sortie mcp-server --workflow PATH`."""

from __future__ import annotations

import sys

from .server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
