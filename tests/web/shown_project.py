"""The project of the pictures in the documentation: a shop, its issues in every state, two weeks of history, and a
real service that works on them with an agent that plays its part."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sortie.core import events as ev
from sortie.core.model import Usage, View
from sortie.core.policy import day_of

from .browsed_scene import BrowsedScene
from .live_server import new_store
from .server_scene import free_port
from .stand_in_claude import MODEL

# What the agent does in its first turn, and in every later one.
Turns = list[list[dict[str, Any]]]

WORKFLOW = """\
---
tracker:
  kind: file
  active_states: [To Do, In Progress]
  terminal_states: [Done]
  in_progress_state: In Progress
  handoff_state: In Review
agent: {kind: claude-code, command: ./claude, max_turns: 20, max_concurrent_agents: 4}
hooks:
  after_create: |
    cp -r SOURCE/. .
    git init -q . && git add -A && git -c user.name=shop -c user.email=shop@example.org commit -qm "The shop"
budget:
  per_day: {usd: 40, tokens: 60000000, turns: 300, sessions: 60}
  per_issue: {usd: 6, turns: 40}
---
You work on issue {{ issue.identifier }} of our shop: {{ issue.title }}

{{ issue.description }}
"""
QUESTION = (
    "Should an invoice use the tax rate of the day of the order, or of the day it is shipped? The tests have both; "
    "I would take the day of the order."
)
COOKIE = (
    "import time\n\n\ndef expires_at(seconds):\n    now = time.localtime()\n    return time.mktime(now) + seconds\n"
)
COOKIE_MENDED = "import time\n\n\ndef expires_at(seconds):\n    return time.time() + seconds\n"
TAX = '"""Tax of an order, by the rules of its country."""\n\nRATES = {"DE": 19, "FR": 20}\n'
TAX_DATED = TAX.replace(
    'RATES = {"DE": 19, "FR": 20}\n',
    'RATES = {"DE": [("2020-01-01", 19)], "FR": [("2014-01-01", 20)]}\n\n\n'
    "def rate_on(country, day):\n    return max(rate for rate in RATES[country] if rate[0] <= day)[1]\n",
)
TEST_TAX = "from shop.tax import rate_on\n\n\ndef test_rate():\n    assert rate_on('DE', '2026-03-01') == 19\n"
TESTS = "python -m pytest tests -q"


def looks(path: str) -> dict[str, Any]:
    return {"tool": "Read", "input": {"file_path": path}, "result": "34 lines"}


def edits(path: str, text: str) -> dict[str, Any]:
    return {"tool": "Edit", "input": {"file_path": path}, "writes": {path: text}, "result": "The file was changed."}


def tests(result: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": TESTS}, "result": result}


def hands_over(usd: float, reason: str) -> Turns:
    work = [{"say": "I read the code first."}, looks("shop/cookie.py"), tests("43 passed in 3.07s")]
    return [[*work, {"usd": usd}, {"status": "needs-human-review", "reason": reason}]]


def works(usd: float, before: list[dict[str, Any]], *now: dict[str, Any]) -> Turns:
    return [[*before, {"usd": usd}], [*now, {"waits": True}]]


ASKS: Turns = [
    [
        {"say": "I read the tax module, its tests and the orders that use it."},
        looks("shop/tax.py"),
        looks("tests/test_tax.py"),
        {"tool": "Grep", "input": {"pattern": "RATES"}, "result": "shop/tax.py:3, shop/invoice.py:71"},
        {"say": "Rates need a day from which they count. I change the table and add a function that looks it up."},
        edits("shop/tax.py", TAX_DATED),
        edits("tests/test_tax.py", TEST_TAX),
        tests("Exit code 1: 1 failed, 42 passed in 3.31s"),
        {"say": "One test wants the rate of the day of shipping, another that of the order."},
        {"usd": 1.37},
        {"status": "blocked", "reason": QUESTION},
    ]
]
FAILS: Turns = [[{"say": "I look at the webhook format."}, {"usd": 0.21}, {"fails": "API Error: 529 Overloaded"}]]
# In the order in which they start: what is over soon comes first.
ISSUES: list[tuple[int, str, Turns]] = [
    (118, "Invoice shows the old tax rate", ASKS),
    (119, "Export of invoices as CSV lacks the tax column", hands_over(1.92, "The column is there, with a test.")),
    (121, "Password reset mail is sent twice", hands_over(0.88, "A lock keeps the second one back; see the test.")),
    (122, "Split the checkout module into three", [[{"say": "The first of three is done."}, {"usd": 6.4}]]),
    (124, "Drop the deprecated v1 webhook format", FAILS),
    (
        125,
        "Login fails after the session cookie expires",
        works(
            0.64,
            [{"say": "The cookie counts in local time."}, edits("shop/cookie.py", COOKIE_MENDED)],
            {"say": "Running the tests of the session module once more"},
        ),
    ),
    (
        126,
        "Search results are sorted by relevance only on the first page",
        works(2.31, [{"say": "The second page asks another index."}], {"say": "Writing a test for page 2 and 3"}),
    ),
    (
        127,
        "Rate limiter counts health checks of the load balancer",
        works(0.35, [{"say": "Health checks carry no account."}], looks("shop/limits.py")),
    ),
    (
        128,
        "Dark mode: the chart legend cannot be read",
        works(
            1.12, [{"say": "The legend has a fixed colour."}], {"say": "Comparing the contrast of all ten colours"}
        ),
    ),
    (130, "Retry uploads that fail with 503", []),
    (131, "Cache headers of static files are missing", []),
    (133, "Time zone of reports follows the server", []),
]


class Shop(BrowsedScene):
    """`write` first, then `browsed`."""

    def write(self) -> None:
        self.workflow.write_text(WORKFLOW.replace("SOURCE", str(self.directory / "source")))
        shutil.copy(Path(__file__).with_name("stand_in_claude.py"), self.directory)
        self._executable(
            self.directory / "claude",
            f'#!/bin/sh\nexec {sys.executable} -I "$(dirname "$0")"/stand_in_claude.py "$@"\n',
        )
        issues = [self._as_issue(place, number, title) for place, (number, title, _) in enumerate(ISSUES)]
        blocked = self._as_issue(9, 134, "Show the time zone in reports") | {
            "blocked_by": [{"identifier": "SHOP-133"}]
        }
        (self.directory / "issues.json").write_text(json.dumps([*issues, blocked]))
        (self.directory / "script.json").write_text(json.dumps({f"SHOP-{one[0]}": one[2] for one in ISSUES}))
        for path, text in (("shop/cookie.py", COOKIE), ("shop/tax.py", TAX), ("tests/test_tax.py", "")):
            file = self.directory / "source" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        new_store(self.store, *earlier_days(time.time()))

    @contextmanager
    def browsed(self) -> Iterator[Shop]:
        environ = {**os.environ, "ANTHROPIC_API_KEY": "a key that nobody accepts"}
        with self.started("run", "--port", str(free_port()), environ=environ) as self.at_work:
            self.at_work.url()
            yield self

    def _as_issue(self, place: int, number: int, title: str) -> dict[str, Any]:
        text = "Reported by three customers; the steps are in the comments."
        name = f"SHOP-{number}"
        return {
            "id": name,
            "identifier": name,
            "title": title,
            "description": text,
            "state": "To Do",
            "priority": place + 1,
        }


AGENTS = (
    ("claude-code", MODEL),
    ("codex", "gpt-5.6-codex"),
    ("claude-code", "claude-haiku-4-5"),
    ("command", ""),
)
OLD_TITLES = ("Mend the basket", "Faster search", "Clearer mail", "A test that fails at night")
DONE = {"status": "succeeded", "reason": "It is done, with tests."}
FAILED = {"status": "failed", "error": "the tests do not pass: 3 failed"}


def earlier_days(now: float) -> list[ev.AnyEvent]:
    """Two weeks of runs, by two agents of three models; one agent never tells what it uses."""
    events: list[ev.AnyEvent] = []
    number = 30
    for day in range(14, 0, -1):
        for place in range(2 + day * 5 % 4):
            number += 1
            at = now - day * 86_400 - place * 2_400
            usd = round(1.2 + (day * 7 + place * 3) % 11 * 0.55, 2)
            events += one_run(at, number, place == 1 and day % 3 == 0, usd, *AGENTS[(day + place) % 7 % 4])
    return sorted(events, key=lambda event: event.at)


def one_run(at: float, number: int, failed: bool, usd: float, agent: str, model: str) -> list[ev.AnyEvent]:
    name, run = f"SHOP-{number}", f"{int(at * 1000):011x}-{number:08x}"
    about: dict[str, Any] = {"issue_id": name, "run_id": run}
    usage = Usage(int(usd * 690_000), int(usd * 16_000), int(usd * 620_000), usd) if model else Usage()
    ending: dict[str, Any] = FAILED if failed else DONE
    view = View(id=name, identifier=name, title=OLD_TITLES[number % 4], state="To Do")
    events: list[ev.AnyEvent] = [
        ev.IssueSeen(at=at, issue_id=name, view=view),
        ev.Claimed(at=at + 1, identifier=name, attempt=1, agent=agent, day=day_of(at), **about),
        ev.TurnStarted(at=at + 2, turn=1, day=day_of(at), **about),
        ev.TurnEnded(at=at + 400 + number, turn=1, **about),
    ]
    if model:
        events.append(ev.Charged(at=at + 401 + number, usage=usage, day=day_of(at), model=model, **about))
    return [
        *events,
        ev.RunEnded(at=at + 402 + number, turns=1, usage=usage, model=model, **ending, **about),
        ev.Settled(at=at + 403 + number, identifier=name, why="handed over to In Review", **about),
        ev.IssueLeft(at=at + 404 + number, issue_id=name, identifier=name),
    ]
