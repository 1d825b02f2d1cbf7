"""Pages read as a browser without scripts reads them: which elements there are, and what a person sees."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}
# What a browser sets apart from what stands before it.
APART = {
    "p",
    "div",
    "td",
    "th",
    "tr",
    "li",
    "dt",
    "dd",
    "h1",
    "h2",
    "h3",
    "section",
    "header",
    "article",
    "summary",
    "b",
}


class Page(HTMLParser):
    """`elements` are names with their attributes, `text` is all that is shown, `faults` is what is amiss: tags,
    names that two elements have, and a list whose other pages lead to no place."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.faults: list[str] = []
        self._pieces: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self._open]
        ids = Counter(attributes["id"] for _, attributes in self.elements if "id" in attributes)
        self.faults += [f"{number} elements are called {name}" for name, number in ids.items() if number > 1]
        pages = (one["href"].partition("#")[2] for one in self.named("a") if one.get("rel") in ("prev", "next"))
        self.faults += [f"there is no {place} to lead to" for place in pages if place and place not in ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag in APART:
            self._pieces.append(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")
        if tag in APART:
            self._pieces.append(" ")

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self._pieces).split())

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def links(self) -> list[str]:
        return [attributes["href"] for attributes in self.named("a") if "href" in attributes]

    @property
    def decisions(self) -> set[str]:
        """What can be done about issues by a form of the page, such as `answer`."""
        posted = [one["action"] for one in self.named("form") if one.get("method") == "post"]
        return {action.rsplit("/", 1)[1] for action in posted if action.startswith("/issues/")}
