"""A real browser: Debian's Chromium, installed where it is missing, driven by Playwright."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, ViewportSize, expect, sync_playwright

from sortie.store.web_tokens import Scope
from sortie.web.tokens import link, new_token
from tests.apt import installed
from tests.cli.scene import wait_until

CHROMIUM = Path("/usr/bin/chromium")
PACKAGES = ["chromium", "fonts-liberation"]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# For what a page shows in the end; on a busy machine that may be late.
PATIENCE_MS = 25_000
PHONE: ViewportSize = {"width": 375, "height": 720}
DESK: ViewportSize = {"width": 1280, "height": 800}

expect.set_options(timeout=PATIENCE_MS)


def installed_chromium() -> Path:
    """The program; raises `NotInstalled`."""
    installed(["chromium"], PACKAGES)
    return CHROMIUM


@contextmanager
def browsing() -> Iterator[Browser]:
    program = installed_chromium()
    with _usual_child_watcher(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def _usual_child_watcher() -> Iterator[None]:
    """Playwright starts its driver in a loop of its own. The watcher that a service wants, and that earlier tests
    in this process may have set, serves the loop of a service alone."""
    if sys.version_info >= (3, 12):
        yield
        return
    policy = asyncio.get_event_loop_policy()
    before = policy.get_child_watcher()
    policy.set_child_watcher(asyncio.ThreadedChildWatcher())
    try:
        yield
    finally:
        policy.set_child_watcher(before)


class Visitors:
    """Pages, each of a visitor of its own: with no cookie of the others. What no page of ours may do is kept in
    `complaints`: raise, break its own security policy, open a dialog."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.complaints: list[str] = []

    def page(self, url: str, *, size: ViewportSize = DESK, script: str = "", **options: Any) -> Page:
        """`url` is that of the server; `script` runs before those of each page."""
        context = self._browser.new_context(viewport=size, base_url=url, **options)
        context.set_default_timeout(PATIENCE_MS)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.on("pageerror", self._raised)
        page.on("console", self._said)
        page.on("dialog", self._asked)
        return page

    def _raised(self, error: Error) -> None:
        self.complaints.append(f"raised: {error}")

    def _said(self, message: ConsoleMessage) -> None:
        if re.search(r"Content.Security.Policy|Refused to", message.text, re.I):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def leave(self) -> None:
        for context in self._browser.contexts:
            context.close()


def log_in(page: Page, store: Path, scope: Scope = "operate") -> str:
    """By a link, as a person does; answers with the token."""
    token = new_token(store, scope)
    origin = re.match(r"\w+://[^/]+", page.url)
    if origin is None:
        page.goto("/")
        origin = re.match(r"\w+://[^/]+", page.url)
    assert origin
    page.goto(link(origin[0], token))
    expect(page).to_have_url(f"{origin[0]}/")
    return token


def until(page: Page, expression: str, argument: Any = None) -> None:
    """Until it is true in the page. Playwright's own waiting evaluates there, which our pages do not allow."""
    wait_until(lambda: page.evaluate(expression, argument))


def does_not_scroll_sideways(page: Page) -> bool:
    """The page as a whole; parts of it may."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
