"""Text of others in a place of ours: what nobody sees is spelled out, what people write stays as it is."""

from __future__ import annotations

import pytest

from sortie.protocol.foreign_text import escape
from sortie.protocol.marked_text import harmless

# Each is printable for Python and shows nothing: fillers, selectors of variants, blanks.
UNSEEN = (
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180F, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159),
    *(0xFE00, 0xFE0D, 0xFE0E, 0xFE0F, 0xE0100, 0xE01EF, 0xE0041, 0xE007F, 0x200B, 0x2062, 0xAD),
)


@pytest.mark.parametrize("number", UNSEEN, ids=hex)
def test_a_character_that_nobody_sees_is_spelled_out(number):
    """Whole sentences can be written with them, which a model reads and no person."""
    spelled = chr(number).encode("unicode_escape").decode()
    for spell in (harmless, escape):
        assert spell(f"a{chr(number)}{chr(number)}b") == f"a{spelled}{spelled}b"


def test_a_selector_counts_only_once_and_only_after_a_sign_that_has_variants():
    assert harmless("\u2764\ufe0f\ufe0f\ufe0e") == "\u2764\ufe0f\\ufe0f\\ufe0e"


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f",
        "\u2600\ufe0e",
        "1\ufe0f\u20e3",
        "\U0001f6e0\ufe0f",
        "\uc548\ub155",
        "e\u0301",
        "\u0939\u093f",
        "\u2803",
    ],
)
def test_what_people_write_stays_as_it_is(text):
    assert harmless(f"So {text}: yes") == f"So {text}: yes"
