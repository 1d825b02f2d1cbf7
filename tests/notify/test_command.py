"""`sortie notify`: how the channels are doing, and a message to try them out."""

from __future__ import annotations

import json

from ..e2e.project import Project
from ..servers.scripted import Answer


def test_a_test_message_is_sent_and_what_happened_is_said(project: Project, sink):
    good = f"{sink.url}/good/oneverysecretpart"
    channels = {"good": {"webhook": good}, "bad": {"webhook": "http://127.0.0.1:1/oneverysecretpart"}}
    project.workflow({"notifications": channels})
    done = project.sortie("notify", "test")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "good: sent"
    assert done.stdout.splitlines()[1].startswith("bad: not sent: it cannot be reached")
    assert "oneverysecretpart" not in done.stdout + done.stderr
    told = json.loads(sink.asked[0].body)
    assert (told["event"], told["issue"]) == ("test", "good")
    assert "This is a test of the channel good" in told["reason"]
    only = project.sortie("notify", "test", "good", "--json")
    assert only.returncode == 0
    assert json.loads(only.stdout) == [{"channel": "good", "sent": True, "error": ""}]


def test_a_channel_that_is_not_there_is_named_with_those_that_are(project: Project):
    nowhere = project.sortie("notify", "test")
    assert (nowhere.returncode, "has no channels" in nowhere.stderr) == (1, True)
    project.workflow({"notifications": {"ops": {"webhook": "https://hooks.example.com/x"}}})
    wrong = project.sortie("notify", "test", "opps")
    assert wrong.returncode == 2
    assert "There is no channel opps" in wrong.stderr
    assert "Those there are: ops." in wrong.stderr


def test_the_list_shows_what_waits_and_what_went_wrong_and_no_address(project: Project, sink):
    sink.usual = Answer(500, b"out of order", {"Retry-After": "60"})
    hook = {"webhook": f"{sink.url}/oneverysecretpart", "digest_seconds": 0}
    project.workflow({"notifications": {"ops": hook, "quiet": {**hook, "on": ["service"]}}})
    before = project.sortie("notify", "list", "--json")
    assert [one["waiting"] for one in json.loads(before.stdout)] == [0, 0]
    project.add("1", "mkdir -p .sortie; printf 'blocked\\n' > .sortie/status")
    project.run()
    listed = json.loads(project.sortie("notify", "list", "--json").stdout)
    ops, quiet = listed
    assert (ops["channel"], ops["kind"], ops["waiting"], ops["sent"]) == ("ops", "webhook", 1, 0)
    assert ops["error"] == "it answered 500: out of order"
    assert ops["next_try_at"]
    assert (quiet["on"], quiet["waiting"], quiet["error"]) == (["service"], 0, "")
    table = project.sortie("notify", "list").stdout
    assert "it answered 500" in table
    assert "oneverysecretpart" not in table + before.stdout + project.output()


def test_on_a_narrow_terminal_names_of_channels_stay_whole(project: Project):
    project.workflow({"notifications": {"operators": {"webhook": "http://127.0.0.1:1/x"}}})
    project.environment["COLUMNS"] = "60"
    header, row = project.sortie("notify", "list").stdout.splitlines()
    assert (header.split()[0], row.split()[0]) == ("channel", "operators")
    assert max(len(header), len(row)) <= 60


def test_doctor_names_the_channels_and_tells_nobody_anything(project: Project, sink):
    project.workflow({"notifications": {"ops": {"webhook": f"{sink.url}/oneverysecretpart"}}})
    done = project.sortie("doctor")
    assert "notifications: messages go to ops (webhook)" in done.stdout
    assert "oneverysecretpart" not in done.stdout
    assert sink.asked == []
