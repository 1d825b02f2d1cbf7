"""The fenced blocks of a prompt, found as any reader of markdown finds them."""

from __future__ import annotations

import re


def blocks_in(prompt: str) -> tuple[list[tuple[str, str]], str]:
    """Each block as (its label, its text); and all the rest."""
    blocks: list[tuple[str, str]] = []
    rest: list[str] = []
    lines = iter(prompt.split("\n"))
    for line in lines:
        opening = re.fullmatch(r"(`{3,})([^`]*)", line)
        if not opening:
            rest.append(line)
            continue
        fence, label = opening.groups()
        inner: list[str] = []
        for each in lines:
            if re.fullmatch(r" {0,3}" + fence + r"`*\s*", each):
                break
            inner.append(each)
        else:
            raise AssertionError("a block that never ends")
        blocks.append((label, "\n".join(inner)))
        rest.append("<block>")
    return blocks, "\n".join(rest)
