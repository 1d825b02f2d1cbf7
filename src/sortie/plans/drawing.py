"""A plan as an SVG that needs nothing else: no script, no font, no file; for light and dark surroundings.

What tasks say of themselves is text of strangers: it is escaped, cut, and rid of all that is not printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from xml.sax.saxutils import escape

from .layout import Box, Route, lay_out
from .picture import STATES, Edge, Node, Picture, counted

MARGIN = 24.0
LETTER = 7.9
PADDING = 14.0
NARROWEST = 96.0
LONGEST_TEXT = 400
LEGEND_ROW = 22.0
LEGEND_WIDTH = 640.0
UNKNOWN = "waiting"

# Line, background and letters: in light surroundings, then in dark ones.
COLOURS = {
    "waiting": ("#8c959f", "#f6f8fa", "#424a53", "#6e7681", "#161b22", "#b1bac4"),
    "pending": ("#8c959f", "#f6f8fa", "#424a53", "#6e7681", "#161b22", "#b1bac4"),
    "ready": ("#0969da", "#ddf4ff", "#0a3069", "#58a6ff", "#0c2d6b", "#cae8ff"),
    "running": ("#0e7c86", "#c9f4f7", "#04393e", "#39c5cf", "#0b3b40", "#b3f0ff"),
    "stale": ("#0e7c86", "#f6f8fa", "#04393e", "#39c5cf", "#161b22", "#b3f0ff"),
    "completed": ("#1a7f37", "#dafbe1", "#0b3d1a", "#3fb950", "#0f3d1e", "#aff5b4"),
    "failed": ("#cf222e", "#ffebe9", "#6e0d14", "#ff7b72", "#5a1218", "#ffdcd7"),
    "incomplete": ("#cf222e", "#ffebe9", "#6e0d14", "#ff7b72", "#5a1218", "#ffdcd7"),
    "blocked": ("#bf8700", "#fff8c5", "#4d2d00", "#e3b341", "#4b3300", "#f8e3a1"),
    "escalated": ("#bf3989", "#ffeff7", "#611347", "#f778ba", "#5e103e", "#ffdaec"),
    "outdated": ("#7d8f1a", "#f3f7d9", "#3a440b", "#a8b545", "#333a10", "#e3ebac"),
    "skipped": ("#c4cbd2", "#ffffff", "#8c959f", "#373e47", "#0d1117", "#6e7681"),
}
# How a line is dashed, and what that means.
DASHES = {
    ("data", "block"): ("", "hands on its outputs"),
    ("data", "continue"): ("10 4", "hands on; goes on without if it fails"),
    ("data", "fail"): ("10 4 2 4", "hands on; fails with it"),
    ("order", "block"): ("2 4", "only has to be over"),
    ("order", "continue"): ("5 5", "only has to be over; goes on if it fails"),
    ("order", "fail"): ("5 4 1 4", "only has to be over; fails with it"),
}


def draw_svg(picture: Picture) -> str:
    """The whole file."""
    widths = {node.name: max(len(node.name) * LETTER + 2 * PADDING, NARROWEST) for node in picture.nodes}
    layout = lay_out(picture.waits_for, widths)
    legend = list(_legend(picture, max(layout.width, LEGEND_WIDTH)))
    top = MARGIN + (legend[-1][1] + LEGEND_ROW + MARGIN / 2 if legend else 0.0)
    width = max(layout.width, *(x for x, _, _ in legend), LEGEND_WIDTH) + 2 * MARGIN
    height = top + layout.height + MARGIN
    edges = {(edge.before, edge.after): edge for edge in picture.edges}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" role="img">',
        f"<title>{_text(_sentence(picture))}</title>",
        f"<style>{_style(picture)}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        '<rect class="paper" width="100%" height="100%"/>',
        f'<g transform="translate({MARGIN} {MARGIN})">',
        *(drawn for _, _, drawn in legend),
        f'</g><g transform="translate({MARGIN} {top:.1f})">',
        *(_line(route, edges[route.before, route.after]) for route in layout.routes),
        *(_box(box, picture.by_name[box.name]) for box in layout.boxes),
        "</g></svg>",
    ]
    return "\n".join(parts) + "\n"


def _sentence(picture: Picture) -> str:
    states = counted(Counter(node.state for node in picture.nodes))
    return f"{len(picture.nodes):,} tasks: {states}" if states else "no tasks"


def _style(picture: Picture) -> str:
    light = [
        "text{font:600 13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}",
        "text.small{font-size:11px;font-weight:400}.paper{fill:#fff}.key{fill:#57606a}",
        ".edge{fill:none;stroke:#8c959f;stroke-width:1.4}.edge.order{stroke-width:1.1}.head{fill:#8c959f}",
        "g:hover>.edge{stroke:#0969da;stroke-width:2.4}",
        ".box rect{stroke-width:1.4}.box.running rect{stroke-width:2.6}",
    ]
    dark = [".paper{fill:#0d1117}.key{fill:#9198a1}.edge{stroke:#6e7681}.head{fill:#6e7681}"]
    dark.append("g:hover>.edge{stroke:#58a6ff}")
    for state in _shown(picture):
        line, paper, letters, dark_line, dark_paper, dark_letters = COLOURS[state]
        light.append(f".{state} rect{{fill:{paper};stroke:{line}}}.{state} text{{fill:{letters}}}")
        dark.append(f".{state} rect{{fill:{dark_paper};stroke:{dark_line}}}.{state} text{{fill:{dark_letters}}}")
    return "".join(light) + "@media(prefers-color-scheme:dark){" + "".join(dark) + "}"


def _shown(picture: Picture) -> list[str]:
    """The looks that are used."""
    used = {_look(node.state) for node in picture.nodes}
    return [state for state in STATES if state in used]


def _look(state: str) -> str:
    return state if state in COLOURS else UNKNOWN


def _legend(picture: Picture, width: float) -> Iterator[tuple[float, float, str]]:
    """What colours and dashes mean, as far as they are used: right edge, upper edge, and the drawing of each."""
    counts = Counter(_look(node.state) for node in picture.nodes)
    used = {(edge.kind, edge.on_failure) for edge in picture.edges}
    entries = [
        (f"{counts[state]:,} {state}", f'<g class="box {state}"><rect width="14" height="14" rx="3"/></g>')
        for state in _shown(picture)
    ]
    entries += [
        (words, f'<path class="edge {key[0]}"{_dashed(dash)} d="M0 7H34"/>')
        for key, (dash, words) in DASHES.items()
        if key in used
    ]
    x = y = 0.0
    for words, sign in entries:
        indent = 20.0 if sign.startswith("<g") else 42.0
        needed = indent + len(words) * LETTER * 0.85 + 18.0
        if x and x + needed > width:
            x, y = 0.0, y + LEGEND_ROW
        text = f'<text class="small key" x="{indent}" y="11">{_text(words)}</text>'
        yield x + needed, y, f'<g transform="translate({x:.1f} {y:.1f})">{sign}{text}</g>'
        x += needed


def _dashed(dash: str) -> str:
    return f' stroke-dasharray="{dash}"' if dash else ""


def _line(route: Route, edge: Edge) -> str:
    """Curves between the layers, level within them."""
    (x, y), *_ = route.points
    way = [f"M{x:.1f} {y:.1f}"]
    for (left, start), (right, end) in pairwise(route.points):
        middle = (left + right) / 2
        curve = f"C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {right:.1f} {end:.1f}"
        way.append(f"H{right:.1f}" if start == end else curve)
    dash, words = DASHES[edge.kind, edge.on_failure]
    title = _text(f"{edge.before} → {edge.after}: {words}")
    path = f'<path class="edge {edge.kind}"{_dashed(dash)} marker-end="url(#head)" d="{"".join(way)}"/>'
    return f"<g><title>{title}</title>{path}</g>"


def _box(box: Box, node: Node) -> str:
    told = [f"{node.name}: {node.state}", *(text for text in (node.note, node.title) if text)]
    return (
        f'<g class="box {_look(node.state)}" transform="translate({box.x:.1f} {box.y:.1f})">'
        f"<title>{chr(10).join(map(_text, told))}</title>"
        f'<rect width="{box.width:.1f}" height="{box.height:.1f}" rx="6"/>'
        f'<text x="{PADDING:.1f}" y="17">{_text(node.name)}</text>'
        f'<text class="small" x="{PADDING:.1f}" y="32">{_text(node.state)}</text></g>'
    )


def _text(text: str) -> str:
    """What XML allows and a reader can trust: characters that are seen, not too many, none with a meaning."""
    seen = "".join(character if character.isprintable() else " " for character in text[: LONGEST_TEXT + 1])
    return escape(seen if len(seen) <= LONGEST_TEXT else seen[: LONGEST_TEXT - 1] + "…")
