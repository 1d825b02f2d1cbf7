"""How soon an event is seen: from its commit to its frame at a client of the stream, and to its text in a page.

The service runs and has nothing to do; what is committed beside it is a remark about an issue whose page is open.
Without Chromium only the stream is measured.
"""

from __future__ import annotations

import http.client
import json
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sortie.core import events as ev
from sortie.store.connect import connect_existing
from sortie.store.load import load
from sortie.store.tables import apply, write

from .bench import Bench
from .project import DEADLINE, Project
from .table import SEEN_IN_A_PAGE, Row

if TYPE_CHECKING:
    from playwright.sync_api import Page

STREAM = "/api/v2/events/stream"
AT_A_CLIENT = "event committed to its frame at a client of the stream"
EVENTS = 20
# Remarks by their text, as soon as they are painted.
WATCH = """
window.seen = {};
new MutationObserver(() => requestAnimationFrame(() => {
  for (const one of document.querySelectorAll("#timeline li bdi")) window.seen[one.textContent] ??= Date.now();
})).observe(document, { childList: true, subtree: true, characterData: true });
"""
Moments = dict[str, float]


def seen(bench: Bench, port: int) -> list[Row]:
    folder = bench.root / "web-seen"
    project = Project(folder, command=bench.program.done, slots=1)
    project.write_issues(1)
    service = project.start("--port", str(port))
    service.until(lambda: project.states() == ["review"])
    service.until(lambda: _answers(port))
    told: Moments = {}
    commit = partial(_commit, folder / ".sortie.db")
    with _listening(port, told):
        in_pages = _in_page(bench, port, commit) if shutil.which("chromium") else []
        committed = _committed(bench, commit, lambda text: text in told)
        at_clients = [told[text] - at for text, at in committed.items()]
        service.end()
    return [*_rows(AT_A_CLIENT, at_clients), *_rows(SEEN_IN_A_PAGE, in_pages)]


def _in_page(bench: Bench, port: int, commit: Callable[[str], float]) -> list[float]:
    from tests.web.browser import browsing

    with browsing() as browser:
        page = browser.new_page()
        page.add_init_script(WATCH)
        page.goto(f"http://127.0.0.1:{port}/issues/B-1?all=1")
        committed = _committed(bench, commit, partial(_is_seen, page), "in the page")
        found: Moments = page.evaluate("window.seen")
    return [found[text] / 1e3 - at for text, at in committed.items()]


def _is_seen(page: Page, text: str) -> bool:
    return bool(page.evaluate("text => text in window.seen", text))


def _committed(
    bench: Bench, commit: Callable[[str], float], is_seen: Callable[[str], bool], where: str = "in the stream"
) -> Moments:
    """When each was; at no fixed moment of any rhythm, some of them soon after the one before."""
    found: Moments = {}
    for n in range(EVENTS * bench.rounds):
        text = f"remark {n} {where}"
        time.sleep(0.1 + n * 0.137 % 1.1)
        found[text] = commit(text)
        give_up = time.monotonic() + DEADLINE
        while not is_seen(text):
            if time.monotonic() > give_up:
                raise RuntimeError(f"{text} was not seen")
            time.sleep(0.02)
    return found


def _commit(store: Path, text: str) -> float:
    with closing(connect_existing(store)) as db:
        event = ev.Noted(at=time.time(), issue_id="1", run_id="", level="info", message=text)
        db.execute("BEGIN IMMEDIATE")
        write(db, [apply(load(db).schedule, event)])
        db.execute("COMMIT")
        return time.time()


@contextmanager
def _listening(port: int, told: Moments) -> Iterator[None]:
    """Until the server ends the stream, with the service."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.request("GET", STREAM)
        answer = connection.getresponse()

        def listen() -> None:
            for line in answer:
                if line.startswith(b"data: ") and b'"remark ' in line:
                    told[json.loads(line[6:])["text"]] = time.time()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield
        thread.join(DEADLINE)


def _answers(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        try:
            connection.request("GET", "/issues/B-1")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False


def _rows(what: str, seconds: list[float]) -> list[Row]:
    picks = (("median", statistics.median), ("p95", lambda values: statistics.quantiles(values, n=20)[-1]))
    note = f"{len(seconds)} events"
    return [Row(f"{what}, {name}", pick(seconds) * 1e3, "ms", note=note) for name, pick in picks if seconds]
