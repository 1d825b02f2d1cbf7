"""Shell lines that agents of several tests share."""

from __future__ import annotations

BLOCKED = "mkdir -p .sortie && echo blocked > .sortie/status"
REVIEW = "mkdir -p .sortie && echo needs-human-review > .sortie/status"
FOR_EVER = "while :; do sleep 600; done"


def says(text: str) -> str:
    """A line for the diary; `$` in the text is the shell's."""
    return f'echo "{text}" >> "$DIARY"'


def writes(content: bytes) -> str:
    """The status file with exactly these bytes."""
    octal = "".join(f"\\{byte:03o}" for byte in content)
    return f"mkdir -p .sortie && printf '{octal}' > .sortie/status"
