"""`notifications:` in the workflow: what may be written there, and that no address is ever shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sortie.reports.settings_shown import settings_of
from sortie.workflow.address_check import address_problems
from sortie.workflow.channels import EVENT_KINDS, ChannelConfig
from sortie.workflow.loader import Examination, examine

SLACK = "https://hooks.example.com/services/T00/B00/this-opens-the-channel"
ROOT = Path(__file__).parents[2]


def workflow(folder: Path, channels: str) -> Path:
    path = folder / "WORKFLOW.md"
    settings = "tracker: {kind: file, active_states: [To Do]}\nagent: {kind: command}"
    path.write_text(f"---\n{settings}\nnotifications:\n{channels}---\nx\n")
    (folder / "issues.json").write_text("[]")
    (folder / "agent.sh").write_text("true")
    return path


def read(folder: Path, channels: str, **environ: str) -> Examination:
    kinds = {"tracker": ["file"], "agent": ["command"]}
    return examine(workflow(folder, channels), environ=environ, kinds=kinds)


def validate(folder: Path, *, python: str = sys.executable, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "sortie", "validate", str(folder / "WORKFLOW.md"), "--json"],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=45,
    )


def test_a_channel_is_a_webhook_or_an_address_of_apprise(tmp_path):
    found = read(
        tmp_path,
        "  ops: {webhook: $HOOK, secret: $KEY, format: slack, on: [error, budget], digest_seconds: 5}\n"
        '  me: {url: "ntfys://ntfy.example.com/my-topic"}\n',
        HOOK=SLACK,
        KEY="0123456789abcdef",
    )
    assert found.errors == ()
    ops, me = found.config.notifications["ops"], found.config.notifications["me"]
    assert (ops.webhook, ops.secret, ops.kind, ops.on, ops.digest_seconds) == (
        *(SLACK, "0123456789abcdef", "slack", ("error", "budget"), 5),
    )
    assert (me.kind, me.on, me.digest_seconds) == ("ntfys", EVENT_KINDS, 30)


@pytest.mark.parametrize(
    ("channel", "key", "words"),
    [
        ("{}", "notifications.ops", "needs an address"),
        ('{url: "json://a", webhook: "https://a"}', "notifications.ops", "either url or webhook"),
        ('{webhook: "http://hooks.example.com/x"}', "notifications.ops.webhook", "https://"),
        ('{webhook: "ftp://hooks.example.com/x"}', "notifications.ops.webhook", "https://"),
        ('{webhook: "https://user:pass@hooks.example.com"}', "notifications.ops.webhook", "without a user"),
        ('{webhook: "https://[::1"}', "notifications.ops.webhook", "is no address"),
        ('{webhook: "https://a.example.com/\\n"}', "notifications.ops.webhook", "https://"),
        ('{url: "somewhere"}', "notifications.ops.url", "as apprise writes them"),
        ('{url: "json://a", secret: 0123456789abcdefg}', "notifications.ops.secret", "goes with webhook"),
        ('{webhook: "https://a", secret: short}', "notifications.ops.secret", "at least 16 characters"),
        ("{webhook: $NOT_SET}", "notifications.ops.webhook", "uses $NOT_SET, which is not set"),
        ('{webhook: "https://a", on: [everything]}', "notifications.ops.on", "parked, error, budget, review or"),
        ('{webhook: "https://a", on: []}', "notifications.ops.on", "at least one of"),
        ('{webhook: "https://a", digest_seconds: 90000}', "notifications.ops.digest_seconds", "from 0 to 86400"),
        ('{webhook: "https://a", format: teams}', "notifications.ops.format", "json or slack"),
        ("5", "notifications.ops", "must be a map"),
        ('{adress: "https://a"}', "notifications.ops.adress", "no such key"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_line(tmp_path, channel, key, words):
    first, *_ = read(tmp_path, f"  ops: {channel}\n").problems
    assert (first.key, first.line) == (key, 5)
    assert words in first.message


@pytest.mark.parametrize("name", ["a b", '"é"', '"x\\ry"', "-x", f"{'x' * 41}"])
def test_the_name_of_a_channel_can_stand_in_a_header(tmp_path, name):
    (problem,) = read(tmp_path, f'  {name}: {{webhook: "https://a.example.com"}}\n').problems
    assert "must be named" in problem.message


@pytest.mark.parametrize("webhook", ["http://127.0.0.1:9/x", "http://localhost/x", "http://[::1]:9/x"])
def test_plain_text_is_for_this_machine_alone(tmp_path, webhook):
    assert read(tmp_path, f'  ops: {{webhook: "{webhook}"}}\n').errors == ()


def test_addresses_and_what_opens_something_in_them_are_secrets(tmp_path):
    url = "mailtos://ann:correct%20horse@smtp.example.com?to=bob@example.com&token=a-long-token-of-somebody"
    config = read(
        tmp_path,
        "  ops: {webhook: $HOOK, secret: $KEY}\n  mail: {url: $MAIL}\n",
        HOOK=SLACK,
        KEY="a-key-that-both-know",
        MAIL=url,
    ).config
    for secret in (
        SLACK,
        "this-opens-the-channel",
        "a-key-that-both-know",
        url,
        "correct horse",
        "a-long-token-of-somebody",
    ):
        assert secret in config.secrets
    assert "services" not in config.secrets, "an ordinary word"
    shown = repr(config.notifications) + repr(config) + str([*config.notifications["ops"].__rich_repr__()])
    assert "hooks.example.com" not in shown


def test_the_settings_that_the_dashboard_shows_have_no_address(tmp_path):
    config = read(
        tmp_path, "  ops: {webhook: $HOOK, secret: $KEY}\n", HOOK=SLACK, KEY="a-key-that-both-know"
    ).config
    shown = {one.key: one.value for one in settings_of(config, hide=str) if one.key.startswith("notifications")}
    assert shown["notifications.ops.webhook"] == shown["notifications.ops.secret"] == "set"
    assert shown["notifications.ops.url"] == "not set"
    assert shown["notifications.ops.format"] == "json"


def test_agents_get_no_variable_that_holds_one(tmp_path):
    config = read(
        tmp_path,
        "  ops: {webhook: $SORTIE_OPS_HOOK}\n",
        SORTIE_OPS_HOOK=SLACK,
        SORTIE_NOTIFICATIONS_OTHER="x",
        SORTIE_AGENT_MAX_TURNS="3",
    ).config
    assert config.overrides == {"SORTIE_AGENT_MAX_TURNS": "3"}


def test_validate_asks_apprise_and_shows_no_address(tmp_path):
    workflow(
        tmp_path,
        '  a: {url: "nosuch://oneverysecretpart"}\n  b: {url: "slack://oneverysecretpart"}\n  c: {url: $GOOD}\n',
    )
    done = validate(tmp_path, GOOD="json://127.0.0.1/oneverysecretpart")
    errors = {error["key"]: error["message"] for error in json.loads(done.stdout)["errors"]}
    assert errors.keys() == {"notifications.a.url", "notifications.b.url"}
    assert errors["notifications.a.url"] == 'apprise knows no service "nosuch"'
    assert "not complete" in errors["notifications.b.url"]
    assert "oneverysecretpart" not in done.stdout + done.stderr


def test_a_desktop_that_cannot_be_reached_from_python_is_refused_with_the_package_that_is_missing(tmp_path):
    missing = tmp_path / "missing"
    missing.mkdir()
    for module in ("dbus", "gi"):
        (missing / f"{module}.py").write_text("raise ImportError")
    channels = [f'  {scheme}: {{url: "{scheme}://"}}\n' for scheme in ("dbus", "glib", "gnome")]
    workflow(tmp_path, "".join(channels))
    done = validate(tmp_path, PYTHONPATH=str(missing))
    assert {error["key"]: error["message"] for error in json.loads(done.stdout)["errors"]} == {
        "notifications.dbus.url": 'apprise cannot use "dbus" on this machine: '
        "it needs the Python package dbus-python (Debian: python3-dbus)",
        "notifications.glib.url": 'apprise cannot use "glib" on this machine: '
        "it needs the Python package PyGObject (Debian: python3-gi)",
        "notifications.gnome.url": 'apprise cannot use "gnome" on this machine: '
        "it needs the Python package PyGObject (Debian: python3-gi and gir1.2-notify-0.7)",
    }


@pytest.mark.parametrize("module", ["apprise", "json", "logging"])
def test_nothing_that_lies_in_the_directory_is_mistaken_for_apprise(tmp_path, module):
    workflow(tmp_path, '  a: {url: "json://127.0.0.1/x"}\n')
    (tmp_path / f"{module}.py").write_text("import os; open('was-run', 'w').write(os.environ['KEY'])")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sortie", "validate", "WORKFLOW.md", "--json"],
        cwd=tmp_path,
        env={**os.environ, "KEY": "a-key-of-the-service"},
        capture_output=True,
        text=True,
        timeout=45,
    )
    assert json.loads(done.stdout)["errors"] == []
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("said", ["hello", "[]", "5"])
def test_where_the_answer_is_not_understood_whoever_sends_will_say_what_is_wrong(tmp_path, monkeypatch, said):
    (tmp_path / "sitecustomize.py").write_text(f"import os; print({said!r}, flush=True); os._exit(0)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [*address_problems({"a": ChannelConfig(url=f"json://127.0.0.1/{said}")})] == []


def test_who_was_killed_before_it_could_look_is_no_reason_to_refuse_an_address(tmp_path, monkeypatch):
    """As by a kernel that is out of memory: nothing is amiss with what is installed."""
    (tmp_path / "sitecustomize.py").write_text("import os; os.kill(os.getpid(), 9)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [*address_problems({"a": ChannelConfig(url="json://127.0.0.1/killed")})] == []


def test_without_apprise_its_addresses_are_an_error_with_the_fix_and_webhooks_are_not(tmp_path):
    installed = tmp_path / "site-packages"
    installed.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith("apprise") and package.suffix != ".pth":
            (installed / package.name).symlink_to(package)
    workflow(tmp_path, '  a: {url: "json://127.0.0.1/x"}\n  b: {webhook: "https://hooks.example.com/x"}\n')
    here = f"{installed}{os.pathsep}{ROOT / 'src'}"
    done = validate(tmp_path, python=os.path.realpath(sys.executable), PYTHONPATH=here, PYTHONNOUSERSITE="1")
    (error,) = json.loads(done.stdout)["errors"]
    assert error["key"] == "notifications.a.url"
    assert error["message"] == "needs apprise; install it with: pip install 'sortie-orchestrator[notifications]'"


def test_what_is_shown_of_a_channel_is_how_it_is_sent():
    assert ChannelConfig(webhook=SLACK).kind == "webhook"
    assert ChannelConfig(url="mailtos://ann:secret@example.com").kind == "mailtos"
    assert ChannelConfig().kind == ""
