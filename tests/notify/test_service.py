"""The whole way: a real service, an agent that asks, and a receiver that hears of it, once, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

from sortie.core import events as ev

from ..e2e.processes import is_alive, wait_for
from ..e2e.project import Project, Service
from ..servers.scripted import Answer, ScriptedServer
from .scene import told_of, until_told

ASKS = "mkdir -p .sortie; printf 'blocked\\nreason: Which colour?\\n' > .sortie/status"
DONE = "mkdir -p .sortie; printf 'needs-human-review\\nreason: have a look\\n' > .sortie/status"


def to(sink: ScriptedServer, **more: object) -> dict[str, object]:
    return {"webhook": f"{sink.url}/oneverysecretpart", "digest_seconds": 0, **more}


def notifiers(service: Service) -> list[int]:
    """The processes that send which this service has now."""
    children = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"sortie.notify" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def noted(project: Project) -> int:
    """How many are on record as sent: whoever is killed after that does not send them again."""
    with project.store() as db:
        (count,) = db.execute("SELECT count(sent_at) FROM notifications").fetchone()
    return int(count)


def test_an_agent_that_asks_and_one_that_is_done_are_told_before_the_run_ends(project: Project, sink):
    project.workflow(
        {"notifications": {"ops": to(sink, digest_seconds=60)}, "tracker": {"handoff_state": "Review"}}
    )
    project.add("1", ASKS)
    project.add("2", DONE)
    assert project.run() == 3
    (digest,) = sink.asked
    told = {item["issue"]: (item["event"], item["reason"]) for item in json.loads(digest.body)["items"]}
    assert told == {"T-1": ("parked", "Which colour?"), "T-2": ("review", "have a look")}
    assert "oneverysecretpart" not in project.output()


def test_each_is_told_once_though_the_service_and_the_sender_are_killed(project: Project, sink):
    project.workflow({"notifications": {"ops": to(sink)}})
    project.add("1", ASKS)
    service = project.start()
    service.until(lambda: noted(project) == 1)
    (sender,) = notifiers(service)
    os.kill(sender, signal.SIGKILL)
    project.add("2", ASKS)
    service.until(lambda: noted(project) == 2)
    (sender,) = notifiers(service)
    service.kill()
    wait_for(lambda: not is_alive(sender))
    project.add("3", ASKS)
    again = project.start()
    until_told(sink, "T-1", "T-2", "T-3")
    assert again.stop() == 0
    assert told_of(sink) == ["T-1", "T-2", "T-3"]


def test_what_no_receiver_took_is_told_by_the_next_service(project: Project, sink):
    sink.usual = Answer(503, b"", {"Retry-After": "3600"})
    project.workflow({"notifications": {"ops": to(sink)}})
    project.add("1", ASKS)
    project.run()
    assert told_of(sink) == ["T-1"], "it was tried once"
    sink.asked.clear()
    sink.usual = Answer()
    with closing(sqlite3.connect(project.db_path)) as db, db:
        db.execute("UPDATE notifications SET next_try_at = 0")
    service = project.start()
    service.until(lambda: told_of(sink) == ["T-1"])
    service.stop()


def test_channels_come_and_go_with_the_workflow(project: Project, sink):
    project.add("1", ASKS)
    service = project.start()
    service.until(lambda: project.parked())
    assert notifiers(service) == []
    project.workflow({"notifications": {"ops": to(sink)}})
    service.until(lambda: notifiers(service))
    project.add("2", ASKS)
    service.until(lambda: told_of(sink) == ["T-2"])
    project.workflow({"notifications": {"ops": {"webhook": "http://elsewhere.example.com/"}}})
    service.until(lambda: "the last good one stays" in project.notes())
    project.add("3", ASKS)
    service.until(lambda: told_of(sink) == ["T-2", "T-3"])
    project.workflow({})
    service.until(lambda: not notifiers(service))
    assert service.stop() == 0


def test_an_agent_that_cannot_run_is_told_though_no_issue_is_parked(project: Project, sink):
    project.workflow({"notifications": {"ops": to(sink)}, "agent": {"command": "/nowhere/agent"}})
    project.add("1")
    service = project.start()
    service.until(lambda: told_of(sink) == ["agent command"])
    service.stop()
    assert json.loads(sink.asked[0].body)["event"] == "service"


def test_a_tracker_that_cannot_be_used_is_told_once(project: Project, sink):
    project.workflow({"notifications": {"ops": to(sink)}})
    project.add("1", ASKS)
    service = project.start()
    service.until(lambda: told_of(sink) == ["T-1"])
    whole = project.issues_path.read_text()
    project.issues_path.write_text("{broken")
    service.until(lambda: told_of(sink) == ["T-1", "service"])
    assert "the tracker still cannot be used; nothing new starts: " in json.loads(sink.asked[1].body)["reason"]
    project.issues_path.write_text(whole)
    service.until(lambda: "the tracker can be used again" in project.notes(level="info"))
    assert service.stop() == 0
    assert told_of(sink) == ["T-1", "service"]


def test_an_outage_that_ended_before_anybody_took_the_word_of_it_is_not_told(project: Project, sink):
    """As one of the network, which keeps from the tracker and from the receiver."""
    sink.usual = Answer(503, b"", {"Retry-After": "3600"})
    project.workflow({"notifications": {"ops": to(sink)}})
    whole = project.issues_path.read_text()
    project.issues_path.write_text("{broken")
    service = project.start()
    service.until(lambda: told_of(sink) == ["service"])
    project.issues_path.write_text(whole)
    service.until(lambda: "the tracker can be used again" in project.notes(level="info"))
    sink.asked.clear()
    sink.usual = Answer()
    with closing(sqlite3.connect(project.db_path)) as db, db:
        db.execute("UPDATE notifications SET next_try_at = 0")
    project.add("1", ASKS)
    service.until(lambda: sink.asked)
    assert service.stop() == 0
    assert told_of(sink) == ["T-1"]


def test_a_store_that_is_deleted_under_the_service_is_told(project: Project, sink):
    project.workflow({"notifications": {"ops": to(sink)}})
    service = project.start()
    service.until(lambda: notifiers(service) and project.events(ev.Opened))
    with project.store() as db:
        service.until(lambda: db.execute("SELECT 1 FROM notification_cursors").fetchone())
    project.db_path.unlink()
    assert service.wait() == 1
    assert "was deleted" in json.loads(sink.asked[0].body)["reason"]
    assert len(sink.asked) == 1


def test_no_agent_sees_an_address_and_its_tools_do_without(project: Project, sink):
    project.environment["SORTIE_OPS"] = f"{sink.url}/oneverysecretpart"
    project.workflow({"notifications": {"ops": {"webhook": "$SORTIE_OPS", "digest_seconds": 0}}})
    project.add("1", f"env > $DIARY; cat .sortie/* >> $DIARY 2>/dev/null; {ASKS}")
    project.run()
    assert told_of(sink) == ["T-1"]
    assert project.diary()
    assert "oneverysecretpart" not in project.diary_path.read_text() + project.run_log() + project.output()


def test_a_key_that_is_no_utf_8_is_in_nobodys_way(project: Project, sink):
    project.environment["SORTIE_TEST_TOKEN"] = os.fsdecode(b"half a char\xe4cter")
    project.workflow({"notifications": {"ops": to(sink)}})
    project.add("1", ASKS)
    assert project.run() == 3
    assert told_of(sink) == ["T-1"]


def test_with_a_dashboard_each_message_leads_to_its_page(project: Project, sink):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    project.workflow({"notifications": {"ops": to(sink)}, "server": {"port": port}})
    project.environment.pop("SORTIE_SERVER_PORT", None)
    project.add("1", ASKS)
    project.run()
    assert json.loads(sink.asked[0].body)["url"] == f"http://127.0.0.1:{port}/issues/T-1"
