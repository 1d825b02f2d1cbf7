"""Formatting of values on pages (Jinja filters): untrusted text made safe and short, times, amounts, addresses."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlencode

from markupsafe import Markup

from ..protocol.web_address import path_of
from ..reports import words

Amount = Callable[[float | None], str]

LONGEST_LINE = 300
# Stands where there is no number.
NOTHING = "\N{EN DASH}"
UNPRICED = "These tokens have no price; set token_rates in the workflow."
LONGEST_TEXT = 20_000
# What terminals obey: colours and cursors, titles and links.
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_LINE_ENDS = re.compile(rf"\r\n|[{words.LINE_ENDS}]")
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_SPACES = re.compile(r"\s+")


def lines(text: object, most: int = LONGEST_TEXT) -> str:
    """Lines as a reader may trust them: nothing hidden, nothing that turns the order of what is read, not too many.

    Terminal colours go; every other character that is not seen is spelled out.
    """
    whole = str(text)
    cut = _TERMINAL.sub("", whole[: 4 * most])
    found = "\n".join(_seen(one) for one in _LINE_ENDS.split(cut))
    if len(found) > most:
        return f"{found[: most - 1]}…"
    return f"{found}…" if len(whole) > 4 * most else found


def line(text: object, most: int = LONGEST_LINE) -> str:
    """All of it in one line."""
    return _shortened(_SPACES.sub(" ", lines(text, 4 * most)).strip(), most)


def word(text: object) -> str:
    """A name for the style sheet: what has none looks like nothing in particular."""
    return "".join(one for one in str(text)[:40] if one.isascii() and (one.isalnum() or one in "-_"))


def anchor(text: object) -> str:
    """A name for a place in the page, of any text."""
    return hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest()[:12]


def _seen(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\t" else words.spelled(one) for one in text)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


# -- times ------------------------------------------------------------------------------------------------------


def moment(at: float | str | None) -> float | None:
    """Seconds since the epoch, also of a stamp in the form of the logs; None for what is no time."""
    if isinstance(at, str):
        try:
            found = datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError:
            return None
        return found.timestamp() if found.tzinfo else None
    return at


def _calendar(at: float | str | None) -> datetime | None:
    seconds = moment(at)
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def stamp(at: float | str | None, form: str = "%Y-%m-%d %H:%M:%S") -> Markup:
    """The time in UTC, as an element that scripts and readers of screens understand."""
    found = _calendar(at)
    if found is None:
        return Markup('<span class="unknown">unknown</span>')
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        _iso(found), found.strftime("%Y-%m-%d %H:%M:%S UTC"), found.strftime(form)
    )


def dated(text: str) -> Markup:
    """A text in which every time in the form of the logs is one that people read."""
    pieces = _STAMP.split(text)
    return Markup("").join(
        stamp(piece) if number % 2 and _calendar(piece) else piece for number, piece in enumerate(pieces)
    )


def clock(at: float | str | None) -> Markup:
    return stamp(at, "%H:%M:%S")


def age(at: float | str | None, now: float, *, kind: str = "age") -> Markup:
    """How long ago, ticking where there are scripts; `kind` is `until` for how long it still takes."""
    found = _calendar(at)
    if found is None:
        return Markup('<span class="unknown">unknown</span>')
    gone = now - found.timestamp()
    return Markup('<time datetime="{}" data-tick="{}" title="{}">{}</time>').format(
        _iso(found),
        kind,
        found.strftime("%Y-%m-%d %H:%M:%S UTC"),
        duration(gone if kind == "age" else -gone),
    )


def until(at: float | str | None, now: float) -> Markup:
    return age(at, now, kind="until")


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(seconds: float | None) -> str:
    """`7s`, `3m05s`, `2h04m`, `3d02h`; a dash for what is no span of time."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    return words.duration(seconds)


def brief(seconds: float) -> str:
    """Of what is over at once: `4 ms`, `0.31 s`."""
    if seconds < 0.001:
        return "<1 ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


# -- amounts ----------------------------------------------------------------------------------------------------


def money(usd: float | None) -> str:
    """`$12.40`; what is less than a cent and not nothing is shown as that."""
    if usd is None:
        return NOTHING
    return "<$0.01" if 0 < usd < 0.005 else f"${usd:,.2f}"


def cost(usd: float | None, used: float | None) -> str:
    """The money for so many tokens. Some agents tell no price: what they used was not free."""
    if used and not usd:
        return Markup('<span class="unknown" title="{}">{}</span>').format(UNPRICED, NOTHING)
    return money(usd)


def tokens(number: float | None) -> str:
    return NOTHING if number is None else words.amount(number)


def whole(number: float | None) -> str:
    return NOTHING if number is None else f"{number:,.0f}"


def size(number: float | None) -> str:
    """Of files: `1.2 GB`."""
    if number is None:
        return NOTHING
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return f"{number:.0f} B"


# -- addresses --------------------------------------------------------------------------------------------------


def task_path(name: str) -> str:
    return path_of("/plan/", name)


def run_path(run_id: str) -> str:
    return path_of("/runs/", run_id)


def query(**fields: object) -> str:
    """`?status=failed&page=2`, of the fields that say something."""
    said = {name: str(value) for name, value in fields.items() if value not in (None, "", 0, False)}
    return f"?{urlencode(said)}" if said else ""
