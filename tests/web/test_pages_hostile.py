"""Whatever agents, trackers and addresses say is text on every page: no element, nothing hidden, and bounded."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest

from sortie.core import events as ev
from sortie.core.model import Park, Usage, View
from sortie.core.policy import Spent
from sortie.engine.report import LiveReport, RunReport
from sortie.protocol.web_address import issue_path
from sortie.runs.run_log import RunLog, log_path
from sortie.store.lock import held
from sortie.web import show
from sortie.web.tokens import new_token

from .busy_store import Steady
from .live_server import new_store, served
from .page_text import Page

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"
TERMINAL = "\x1b[31mred\x1b[0m\x1b]8;;http://evil.example\x07link\x1b]8;;\x07"
MEAN = f"{SCRIPT} {TERMINAL} \u202egnitirw \x00 \u2066x\u2069 {{{{ 7*7 }}}}"
LONG = "A" * 1_000_000
NAMES = (
    "a/b",
    "..",
    ".",
    "../../etc/passwd",
    "x#y?z=1&w=2",
    "%2e%2e",
    "naïve ☃ 漢字",
    "back\\slash",
    " leading and trailing ",
    "a//b/",
    "answer",
    "x/answer",
    SCRIPT,
    "new\nline\ttab",
    "\u202etxet",
    "n" * 900,
)


def story_of(name: str, text: str, at: float) -> list[ev.AnyEvent]:
    run = f"run-{show.anchor(name)}"
    about: dict[str, Any] = {"issue_id": name, "run_id": run}
    usage = Usage(10, 10, 0, 0.1)
    view = View(id=name, identifier=name, title=text, state="To Do", url=f"javascript:{text}")
    tool = ev.ToolCalled(
        at=at + 3, tool="tracker_api", result="error", ms=1.0, operation=text[:500], error=text[:500], **about
    )
    return [
        ev.IssueSeen(at=at, issue_id=name, view=view),
        ev.Claimed(at=at + 1, identifier=name, attempt=1, agent=text[:200], day="2026-11-18", **about),
        ev.TurnStarted(at=at + 2, turn=1, day="2026-11-18", **about),
        tool,
        ev.Noted(at=at + 4, level="warning", message=text, detail=text, **about),
        ev.RunEnded(
            at=at + 5, status="failed", turns=1, error=text, reason=text, usage=usage, session_id=text[:50], **about
        ),
        ev.Settled(
            at=at + 6, identifier=name, why=text, park=Park(kind="signal", reason=text, fingerprint="f"), **about
        ),
    ]


@pytest.fixture(scope="module")
def mean(tmp_path_factory):
    folder, now = tmp_path_factory.mktemp("mean"), time.time()
    events = [event for name in NAMES for event in story_of(name, MEAN, now - 100)]
    events += story_of("LONG-1", LONG, now - 50)
    claim = ev.Claimed(
        at=now, issue_id="R", run_id="run-r", identifier="R", attempt=1, agent=MEAN, day="2026-11-18"
    )
    store = new_store(folder / "sortie.db", *events, claim)
    for run in ("run-r", f"run-{show.anchor('a/b')}", f"run-{show.anchor('LONG-1')}"):
        log = RunLog(log_path(store, run))
        for source, text in (("agent", MEAN), ("uses", MEAN), ("uses", LONG), ("<b>", MEAN), ("agent", LONG)):
            log.write(now, source, text)
        log.close()
    report = RunReport(
        issue_id="R",
        identifier="R",
        title=MEAN,
        run_id="run-r",
        attempt=1,
        turn=1,
        max_turns=5,
        seconds=3.0,
        quiet_seconds=1.0,
        usage=Usage(),
        last_line=MEAN + LONG,
        ending=False,
        agent=MEAN,
        model=MEAN,
    )
    told = LiveReport(now=now, running=(report,), waiting=(), parked=(), ready=0, slots=1, today=Spent())
    with served(store, live=Steady(told)) as server:
        yield server, {"authorization": f"Bearer {new_token(store, 'operate')}"}


def read(mean, path: str, status: int = 200) -> Page:
    server, token = mean
    answer = server.request("GET", path, {"accept": "text/html", **token})
    assert answer.status == status, answer.text[:500]
    page = Page(answer.text)
    assert page.faults == []
    assert len(answer.body) < 600_000
    assert {tag for tag, _ in page.elements} & {"img", "iframe", "object", "embed", "style", "base"} == set()
    assert all(one["src"].startswith("/static/") for one in page.named("script"))
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert [one for one in page.links if not one.startswith(("/", "#"))] == []
    for hidden in ("\x1b", "\x00", "\u202e", "\u2066"):
        assert hidden not in page.text, (path, hidden)
    assert "49" not in page.text.split("7*7")[0][-3:]
    return page


@pytest.mark.parametrize("path", ["/", "/runs", "/money", "/health"])
def test_what_strangers_say_is_text(mean, path):
    read(mean, path)


def test_a_stranger_is_shown_as_what_he_wrote(mean):
    text = read(mean, "/").text
    assert "<script>document.title='owned'</script>" in text
    assert "red" in text and r"\u202egnitirw" in text and r"\x00" in text
    assert "{{ 7*7 }}" in text


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:20]))
def test_an_issue_is_found_by_its_name_whatever_that_is(mean, name):
    page = read(mean, issue_path(name))
    assert show.line(name, 120).split()[0] in page.text
    assert issue_path(name) in read(mean, "/").links


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:20]))
def test_a_decision_reaches_the_issue_of_that_name(mean, name):
    server, token = mean
    origin = {"origin": server.url, "content-type": "application/x-www-form-urlencoded"}
    answer = server.request("POST", issue_path(name, "unpark"), {**token, **origin}, "back=%2F")
    assert (answer.status, answer.headers["location"].startswith("/?reply=")) == (303, True)
    with server.site.looking() as db:
        (issue,) = db.execute("SELECT issue FROM commands ORDER BY id DESC LIMIT 1").fetchone()
    assert issue == name


def test_whoever_signed_the_lock_is_shown_as_text(mean):
    with held(mean[0].site.database, {"pid": MEAN, "since": MEAN}):
        read(mean, "/health")


def test_a_megabyte_of_text_is_cut(mean):
    page = read(mean, "/issues/LONG-1")
    assert "A" * 1000 in page.text and "A" * 100_000 not in page.text


def test_a_run_shows_what_was_said_as_text(mean):
    page = read(mean, "/runs/run-r")
    assert "<script>" in page.text
    folded = [one for one in page.named("details") if one.get("class") == "tools"]
    assert folded


def test_an_address_that_nobody_made_is_shown_as_text(mean):
    for path in (f"/issues/{quote(SCRIPT + 'x')}", f"/runs/{quote('<img src=x>')}", f"/{quote(SCRIPT)}"):
        read(mean, path, 404)
    read(mean, f"/runs?text={quote(SCRIPT)}&agent={quote(MEAN)}&issue={quote(SCRIPT)}")
    assert "owned" not in read(mean, f"/?reply={quote(SCRIPT)}").text.split("Needs you")[0]


def test_text_is_cleaned_once_for_all():
    assert show.lines("a\x1b[1;31mb\x1b[0mc") == "abc"
    assert show.lines("a\r\nb\u2028c") == "a\nb\nc"
    assert show.lines("\u202ex\u0007") == r"\u202ex\x07"
    assert show.line("  a \n\n b\t c ") == "a b c"
    assert show.lines("x" * 50, 10) == "x" * 9 + "…"
    assert len(show.lines(LONG)) == show.LONGEST_TEXT


def test_what_took_no_time_that_people_count_is_not_called_nothing():
    assert [show.brief(seconds) for seconds in (0.0002, 0.0042, 0.31, 12.0)] == [
        "<1 ms",
        "4 ms",
        "0.31 s",
        "12.00 s",
    ]


def test_times_in_a_sentence_are_those_that_people_read():
    said = show.dated("since 2026-03-29T01:30:00Z, <b>2026-13-41T25:00:00Z</b>")
    assert ">2026-03-29 01:30:00</time>, &lt;b&gt;2026-13-41T25:00:00Z&lt;/b&gt;" in said
    assert str(show.dated("no time")) == "no time"


@pytest.mark.parametrize("at", [None, "", "nonsense", float("nan"), float("inf"), 1e300, -1e300, "0001-01-01"])
def test_a_time_that_no_calendar_has_is_unknown(at):
    assert "unknown" in show.stamp(at) and "unknown" in show.age(at, 0.0)
