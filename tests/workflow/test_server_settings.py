"""The section `server`: where the dashboard listens, who may use it, and that its secrets stay where they are."""

from __future__ import annotations

import pytest

from sortie.workflow.config import OF_THE_SERVICE, ServerConfig
from sortie.workflow.loader import load
from sortie.workflow.reloader import Changed, Reloader

from .sample import KINDS, SETTINGS, load_text, problems_of, write

TOKEN = "sixteen-letters-"
NEEDS = (
    "can be reached from other machines, so it needs a token; set server.tokens.operate or "
    "SORTIE_SERVER_TOKENS_OPERATE, or listen on 127.0.0.1"
)


def test_a_port_that_nobody_asked_for_is_none(tmp_path):
    server = load_text(tmp_path).config.server
    assert (server.port, server.host, server.secrets) == (None, "127.0.0.1", ())
    assert load_text(tmp_path, SETTINGS + "server: {port: 7678}\n").config.server.port == 7678


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{port: 65536}", "server.port: must be a whole number from 0 to 65535, not 65536"),
        ("{port: -1}", "server.port: must be a whole number from 0 to 65535, not -1"),
        ("{port: true}", "server.port: must be a whole number from 0 to 65535, not true"),
        ('{port: "7678"}', 'server.port: must be a whole number from 0 to 65535, not "7678"'),
        ("{host: localhost}", 'server.host: must be an IP address, such as "127.0.0.1" or "::1", not "localhost"'),
        ("{host: 127.0.0.1:80}", 'server.host: must be an IP address, such as "127.0.0.1" or "::1", not'),
        ("{host: ''}", 'server.host: must be an IP address, such as "127.0.0.1" or "::1", not ""'),
        ("{public_url: sortie.example.com}", "server.public_url: must be the address of a whole site, such as"),
        ("{public_url: 'https://a.example/x'}", "server.public_url: must be the address of a whole site, such as"),
        (
            "{public_url: 'https://u@a.example'}",
            "server.public_url: must be the address of a whole site, such as",
        ),
        ("{public_url: 'https://a.example:x'}", "server.public_url: must be the address of a whole site, such as"),
        ("{public_url: 'https://[::1'}", "server.public_url: must be the address of a whole site, such as"),
        ("{public_url: 'ftp://a.example'}", "server.public_url: must be the address of a whole site, such as"),
        ("{tokens: {read: short}}", "server.tokens.read: must have at least 16 characters, not this text"),
        (
            "{tokens: {read: 'pässwörter-sind-kurz'}}",
            "server.tokens.read: must be printable ASCII, because it is sent in a header, not this text",
        ),
        (
            '{tokens: {read: "two lines of it\\nand more"}}',
            "server.tokens.read: must be printable ASCII, because it is sent in a header, not this text",
        ),
        ("{tokens: {read: '  short         '}}", "server.tokens.read: must have at least 16 characters, not this"),
        ("{tokens: {operate: $NO}}", "server.tokens.operate: uses $NO, which is not set; set it, or write"),
        ("{tokens: {write: x}}", "server.tokens.write: there is no such key in server.tokens"),
        ("{webhook_secret: [a]}", "server.webhook_secret: must be text, not a list"),
        ("5", "server: must be a map, not 5"),
    ],
)
def test_what_does_not_fit_is_named_with_its_line_and_no_secret_is_shown(tmp_path, section, problem):
    (found,) = problems_of(tmp_path, SETTINGS + f"server: {section}\n")
    assert found.startswith(f"WORKFLOW.md:8: {problem}")
    assert "short" not in found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://Sortie.Example.com", "https://sortie.example.com/"),
        ("http://nas.local:7678/", "http://nas.local:7678/"),
        ("'https://[2001:db8::1]:8443'", "https://[2001:db8::1]:8443/"),
        ("''", ""),
    ],
)
def test_how_it_is_called_from_elsewhere_is_told_in_one_form(tmp_path, text, told):
    assert load_text(tmp_path, SETTINGS + f"server: {{public_url: {text}}}\n").config.server.public_url == told


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "'::'", "'2001:db8::1'"])
def test_an_address_that_other_machines_reach_needs_a_token(tmp_path, host):
    section = SETTINGS + f"server:\n  host: {host}\n"
    told = host.strip("'")
    assert problems_of(tmp_path, section) == [f"WORKFLOW.md:9: server.host: {told} {NEEDS}"]
    assert load_text(tmp_path, section + f"  tokens: {{metrics: {TOKEN}}}\n").config.server.host == told
    assert load_text(tmp_path, section, SORTIE_SERVER_TOKENS_READ=TOKEN).config.server.host == told
    assert load_text(tmp_path, section + "  port: 0\n").config.server.host == told


def test_a_token_is_what_can_be_sent_however_its_file_ended(tmp_path):
    """Who reads a header takes no spaces at its ends, and files of secrets end with a line."""
    section = SETTINGS + "server: {tokens: {operate: $OP}}\n"
    assert load_text(tmp_path, section, OP=f" {TOKEN}\n").config.server.tokens.operate == TOKEN


def test_one_mistake_in_a_token_is_not_reported_as_two(tmp_path):
    section = SETTINGS + "server: {host: 0.0.0.0, tokens: {read: short}}\n"
    (problem,) = problems_of(tmp_path, section)
    assert "server.tokens.read" in problem


def test_secrets_of_the_server_are_hidden_wherever_they_come_from(tmp_path):
    section = "server:\n  webhook_secret: $HOOK\n  tokens: {read: 'literal-token-of-a-reader', operate: $OP}\n"
    config = load_text(
        tmp_path,
        SETTINGS + section,
        HOOK="hook-secret-of-mine",
        OP="operate-by-variable",
        SORTIE_SERVER_TOKENS_METRICS="metrics-by-override",
    ).config
    secrets = ("literal-token-of-a-reader", "operate-by-variable", "hook-secret-of-mine", "metrics-by-override")
    assert set(secrets) <= set(config.secrets)
    assert not [secret for secret in secrets if secret in repr(config.server) + repr(config.server.tokens)]


def test_what_agents_read_the_workflow_with_has_nothing_of_the_server(tmp_path):
    section = SETTINGS + "server: {host: 0.0.0.0, tokens: {operate: $OP}}\n"
    variables = {"SORTIE_SERVER_TOKENS_READ": TOKEN, "SORTIE_SERVER_PORT": "1", "SORTIE_AGENT_MAX_TURNS": "3"}
    config = load_text(tmp_path, section, OP=TOKEN, **variables).config
    assert config.overrides == {"SORTIE_AGENT_MAX_TURNS": "3"}
    path = tmp_path / "WORKFLOW.md"
    read = load(path, environ=config.overrides, kinds=KINDS, without=OF_THE_SERVICE).config
    assert read.server == ServerConfig()


def test_a_changed_section_takes_effect_after_a_restart(tmp_path):
    reloader = Reloader(write(tmp_path, SETTINGS + "server: {port: 1}\n"), environ={}, kinds=KINDS)
    old = reloader.current.config.server
    write(tmp_path, SETTINGS + f"  max_turns: 3\nserver: {{port: 1, tokens: {{read: {TOKEN}}}}}\n")
    changed = reloader.refresh()
    assert isinstance(changed, Changed)
    assert changed.needs_restart == ("server",)
    config = reloader.current.config
    assert (config.server, config.agent.max_turns) == (old, 3)
    assert TOKEN in config.secrets
