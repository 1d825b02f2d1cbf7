"""The first prompt of a run: the rendered template, then the tools, and the status instructions last."""

from __future__ import annotations

# Fixed text: nothing that an issue says can change what agents are told about the status file.
STATUS_INSTRUCTIONS = """\
If you determine that you cannot make further progress on this task without human
intervention, or if your work is complete and requires human review, signal the
orchestrator by running:

    mkdir -p .sortie && echo "blocked" > .sortie/status

Use "blocked" when you cannot proceed. Use "needs-human-review" when your work is
complete and awaiting review. Do not write this file during normal productive work.
"""


def compose_first_prompt(rendered: str, tools: str = "") -> str:
    """The parts in their order, a blank line between them. Later turns get none of this."""
    parts = [part.rstrip() for part in (rendered, tools)]
    return "\n\n".join([*filter(None, parts), STATUS_INSTRUCTIONS])
