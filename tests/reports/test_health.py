"""How the service and its surroundings are: true where nothing runs, cheap on a long log, and without secrets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.model import Park
from sortie.reports.health import Health, health_report
from sortie.store.commands import add_commands
from sortie.workflow.loader import examine

from .scene import NOW, SECRET, WORKFLOW, hidden, steps


class Live(Struct, frozen=True):
    now: float = NOW
    draining: bool = False
    loop_lag: float = 0.002
    last_look_at: float = NOW - 3
    last_look_error: str = f"refused {SECRET}"
    look_seconds: float = 0.2


@pytest.fixture
def look(filled, config, tmp_path):
    def report(events: list[ev.AnyEvent], **more: Any) -> Health:
        given: dict[str, Any] = {"broken": False, "service": None, "now": NOW, "hide": hidden, **more}
        return health_report(filled(events), database=tmp_path / "sortie.db", config=config, **given)

    return report


def test_a_store_nobody_serves_has_no_looks_and_tells_its_size(look):
    found = look([ev.Opened(at=NOW - 9, pid=1, version="9.9", workflow="w")])
    assert (found.service, found.looking, found.version) == (None, None, "9.9")
    assert found.store.events == 1
    assert found.store.size > 0
    assert all(disk.free > 0 and not disk.problem for disk in found.disks)


def test_of_a_place_that_cannot_be_looked_at_is_said_why_and_all_else_is_told(filled, config, tmp_path):
    root = tmp_path / ("a" * 300)
    elsewhere = replace(config, workspace=replace(config.workspace, root=root))
    found = health_report(
        filled([]),
        database=tmp_path / "sortie.db",
        config=elsewhere,
        broken=False,
        service=None,
        now=NOW,
        hide=hidden,
    )
    (store, workspaces) = found.disks
    assert store.free > 0
    assert (workspaces.path, workspaces.total, workspaces.problem) == (str(root), 0, "file name too long")


def test_a_service_tells_of_its_looks(look):
    looking = look([], live=Live()).looking
    assert looking is not None
    assert (looking.at, looking.error, looking.loop_lag) == (NOW - 3, "refused [redacted]", 0.002)
    fresh = look([], live=Live(last_look_at=0.0)).looking
    assert fresh is not None
    assert fresh.at is None


def test_what_is_pending_paused_and_oldest_is_counted(look, tmp_path):
    look([])
    add_commands(tmp_path / "sortie.db", "stop", ["A-1", "A-2"])
    park = Park(kind="signal", reason="?", fingerprint="")
    found = look(
        [
            ev.Parked(at=NOW - 50, issue_id="1", identifier="A-1", park=park),
            ev.Parked(at=NOW - 90, issue_id="2", identifier="A-2", park=park),
            ev.Claimed(at=NOW - 20, issue_id="3", run_id="r", identifier="A-3", attempt=1, host="h1"),
            ev.EffectPlanned(at=NOW, issue_id="3", run_id="r", effect_id="e", verb="comment", argument="x"),
            ev.ProviderPaused(at=NOW, provider="codex", until=NOW + 60, detail=f"limit {SECRET}"),
        ]
    )
    assert (found.pending.commands, found.pending.effects) == (2, 1)
    assert [(one.agent, one.detail) for one in found.pauses] == [("codex", "limit [redacted]")]
    assert {one.what: one.identifier for one in found.oldest} == {
        "running": "A-3",
        "parked": "A-2",
        "command": "stop A-1",
        "write": "comment of 3",
    }
    assert found.hosts == {"h1": 1}


def test_what_went_wrong_lately_is_told_the_newest_first(look):
    levels: tuple[ev.Level, ...] = ("warning", "info", "error")
    found = look([ev.Noted(at=NOW + n, level=level, message=f"{n} {SECRET}") for n, level in enumerate(levels)])
    assert [(one.level, one.text) for one in found.trouble] == [
        ("error", "2 [redacted]"),
        ("warning", "0 [redacted]"),
    ]


def test_what_went_wrong_says_with_which_issue(look):
    view = ev.View(id="7", identifier="A-7", title="", state="To Do")
    found = look(
        [
            ev.IssueSeen(at=NOW, issue_id="7", view=view),
            *(ev.Noted(at=NOW, level="warning", message="left", issue_id=issue) for issue in ("", "7", "8")),
        ]
    )
    assert [(one.issue_id, one.identifier) for one in found.trouble] == [("8", "8"), ("7", "A-7"), ("", "")]


def test_of_secrets_only_that_they_are_set_is_shown(look):
    found = look([], live=Live())
    shown = {setting.key: setting for setting in found.settings}
    assert (shown["tracker.api_key"].value, shown["tracker.api_key"].is_secret) == ("set", True)
    assert (shown["mock.api_token"].value, shown["mock.api_token"].is_secret) == ("set", True)
    assert shown["mock.turns"].value == "3"
    assert (shown["tracker.active_states"].value, shown["agent.max_turns"].is_default) == ('["To Do"]', True)
    assert shown["budget.per_day.usd"].value == "50.0"
    assert SECRET.encode() not in msgspec.json.encode(found)


def test_a_setting_is_shown_as_the_workflow_writes_it(tmp_path, filled):
    """A key that ends in `_ms` has milliseconds, whatever we count in."""
    path = tmp_path / "OTHER.md"
    path.write_text((WORKFLOW % ("", SECRET)).replace("tracker:", "polling: {interval_ms: 1500}\ntracker:", 1))
    config = examine(path, environ={}, trial=False).config
    given: dict[str, Any] = {"broken": False, "service": None, "now": NOW, "hide": hidden}
    found = health_report(filled([]), database=tmp_path / "sortie.db", config=config, **given)
    shown = {setting.key: (setting.value, setting.is_default) for setting in found.settings}
    assert shown["polling.interval_ms"] == ("1500", False)
    assert shown["agent.turn_timeout_ms"] == ("3600000", True)


def test_a_secret_that_is_not_set_says_so_and_one_deep_in_options_is_not_shown(tmp_path, filled):
    path = tmp_path / "OTHER.md"
    path.write_text(
        (WORKFLOW % ("", SECRET)).replace(
            f"api_token: {SECRET}", f"env: [{{api_key: {SECRET}}}, x], secret: {{a: [{SECRET}]}}"
        )
    )
    config = examine(path, environ={}, trial=False).config
    found = health_report(
        filled([]),
        database=tmp_path / "sortie.db",
        config=config,
        broken=False,
        service=None,
        now=NOW,
        hide=lambda text: text,
    )
    shown = {setting.key: setting.value for setting in found.settings}
    assert (shown["tracker.api_key"], shown["mock.env.0.api_key"], shown["mock.secret.a"]) == (
        "not set",
        "set",
        "set",
    )
    assert shown["mock.env.1"] == "x"
    assert SECRET.encode() not in msgspec.json.encode(found)


def test_it_costs_no_more_on_a_longer_log(stores, config):
    def report(path: Any) -> Any:
        return lambda db: health_report(
            db, database=path, config=config, broken=False, service=None, now=NOW, hide=hidden
        )

    few, many = (steps(path, report(path)) for path in stores)
    # The end of the log is looked through as far as the shorter one is long, and a little further.
    assert many < few * 5
