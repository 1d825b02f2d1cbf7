"""The skills that come with Sortie, and how any skill becomes the whole of a SKILL.md.

What holds for every agent, whoever wrote its skill, is said once, in `protocol.md`, and put below each.
"""

from __future__ import annotations

from functools import cache

TEMPLATES = ("research", "code", "analysis", "writer", "review", "integration")

_NO_SKILL = "# Skill: general\n\nYou are an autonomous agent with one task. Do it as well as you can.\n"


@cache
def template(name: str) -> str:
    """The text of a built-in skill."""
    from importlib.resources import files

    return files("sortie.plans").joinpath("skills", f"{name}.md").read_text("utf-8")


def whole(skill: str) -> str:
    """A skill with the rules that hold for every agent below it; for none, the rules with a word before them."""
    return f"{skill.strip() or _NO_SKILL.strip()}\n\n{template('protocol').strip()}\n"
