"""The inspector from npm, installed once into `.cache` of the checkout: `python -m tests.tools.inspector`."""

from __future__ import annotations

from pathlib import Path

from tests import npm

VERSION = "2.12.0"


def installed() -> Path:
    """The program, installed first where it is not there yet; about 110 MB and half a minute, the first time."""
    package = f"@modelcontextprotocol/inspector@{VERSION}"
    return npm.installed(f"inspector-{VERSION}", [package], ".bin/mcp-inspector")


if __name__ == "__main__":
    print(installed())
