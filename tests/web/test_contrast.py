"""Who sees little can read every text: the colours of the style sheet, light and dark, measured as WCAG does."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sortie.web import static

# Level AA, for text of any size.
ENOUGH = 4.5
NEUTRAL = ("paper", "sheet", "sunk", "grey-tint")
COLOURED = ("blue", "teal", "green", "amber", "red", "violet")
TINTS = tuple(f"{name}-tint" for name in COLOURED)


def sheet() -> str:
    return static.files()["sortie.css"].decode()


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6});", block))


def scheme(name: str) -> dict[str, str]:
    """What is not said anew for the dark is as it is in the light."""
    light, dark = re.findall(r":root \{(.*?)\}", sheet(), re.S)
    return colours(light) | (colours(dark) if name == "dark" else {})


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def pairs() -> Iterator[tuple[str, str]]:
    """Text, and what it stands on."""
    for text in ("ink", "soft", "faint", *COLOURED):
        yield from ((text, ground) for ground in NEUTRAL)
    for name in COLOURED:
        yield name, f"{name}-tint"
    for text in ("ink", "blue"):  # what happened to a command, warnings and their links, changed lines
        yield from ((text, ground) for ground in TINTS)
    yield "sheet", "blue"  # the button that is meant
    yield "sheet", "amber"  # how many need a person


def test_the_measure_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_text_stands_out_from_what_it_stands_on(name):
    found = scheme(name)
    weak = {
        f"{text} on {ground}": round(contrast(found[text], found[ground]), 2)
        for text, ground in pairs()
        if contrast(found[text], found[ground]) < ENOUGH
    }
    assert weak == {}


def test_no_text_has_another_colour():
    known = {f"var(--{name})" for name in ("ink", "soft", "faint", "sheet", *COLOURED)}
    assert set(re.findall(r"(?<![-\w])color: ([^;}]+)", sheet())) <= known | {"inherit", "currentColor"}
