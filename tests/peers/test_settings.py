"""peers.yaml: what fits, and every mistake with its line."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core.model import Limits
from sortie.errors import ConfigurationError
from sortie.peers.settings import PeerSettings, examine_settings, load_settings


def written(folder: Path, text: str) -> Path:
    path = folder / "peers.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def problems_of(folder: Path, text: str) -> list[str]:
    settings, problems = examine_settings(written(folder, text))
    assert settings is None
    return [str(problem).removeprefix(f"{folder}/") for problem in problems]


def test_everything_that_can_be_said_is_read(tmp_path):
    path = written(
        tmp_path,
        """\
        maintainer: Ada
        violations: revert
        agents:
          Alice: {kind: claude-code, model: opus, credential: work, env: [EDITOR], stall_timeout_ms: 0}
          bob:
            kind: command
            command: ./agents/bob.sh
            turn_timeout_ms: 1500
        budget:
          per_turn: {tokens: 1000, usd: unlimited}
          per_day: {turns: 3}
        """,
    )
    settings = load_settings(path)
    assert (settings.maintainer, settings.violations, [*settings.agents]) == ("Ada", "revert", ["Alice", "bob"])
    alice, bob = settings.agents.values()
    assert (alice.all_options, alice.env, alice.stall_timeout) == ({"model": "opus"}, ("EDITOR",), 0.0)
    assert (bob.kind, bob.turn_timeout, bob.settings(tmp_path).base) == ("command", 1.5, tmp_path)
    assert settings.budget.turn == Limits(tokens=1000)
    assert settings.budget.day == Limits(turns=3, tokens=200_000_000, usd=200.0)
    assert (settings.find("ALICE"), settings.find("Bob"), settings.find("carol")) == ("Alice", "bob", None)


def test_what_nobody_bounded_is_bounded(tmp_path):
    settings = load_settings(written(tmp_path, "agents: {Alice: {kind: mock}}"))
    for bound in (settings.budget.day.turns, settings.budget.day.tokens, settings.budget.day.usd):
        assert bound is not None
    assert settings.budget.turn.tokens and settings.budget.turn.usd
    assert settings.violations == "report"


def test_every_mistake_is_told_at_once_with_its_line(tmp_path):
    found = problems_of(
        tmp_path,
        """\
        maintainer: 7
        violation: revert
        agents:
          alice: {kind: claud-code}
          Alice: {kind: command, comand: sh, options: {speed: 3}}
          all: {kind: mock}
          "a|b": {kind: mock}
          carol: {kind: mock, turn_timeout_ms: soon}
        budget: {per_turn: {turns: 3}, per_day: {usd: -1}}
        """,
    )
    lines = [line.split(": ", 2) for line in found]
    assert [(place, key) for place, key, _ in lines] == [
        ("peers.yaml:1", "maintainer"),
        ("peers.yaml:2", "violation"),
        ("peers.yaml:4", "agents.alice.kind"),
        ("peers.yaml:5", "agents.Alice.comand"),
        ("peers.yaml:5", "agents.Alice"),
        ("peers.yaml:5", "agents.Alice.options.speed"),
        ("peers.yaml:6", "agents.all"),
        ("peers.yaml:7", "agents.a|b"),
        ("peers.yaml:8", "agents.carol.turn_timeout_ms"),
        ("peers.yaml:9", "budget.per_turn.turns"),
        ("peers.yaml:9", "budget.per_day.usd"),
    ]
    assert 'did you mean "violations"?' in found[1]
    assert 'did you mean "claude-code"?' in found[2]
    with pytest.raises(ConfigurationError, match="has 11 problems"):
        load_settings(tmp_path / "peers.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "name at least one agent"),
        ("agents: {}", "name at least one agent"),
        ("- a", "must be a map"),
        ("agents: [a]", "must be a map"),
        ("agents: {a: command}", "must be a map"),
        ("agents: {a: {kind: mock}, a: {kind: mock}}", "is given twice"),
        ("agents: {Maintainer: {kind: mock}}", "has a meaning of its own"),
        ("a: &a [*a]", "refers to itself"),
        ("agents: {a: {kind: mock", "not valid YAML"),
    ],
)
def test_what_is_no_setting_is_one_sentence(tmp_path, text, said):
    (sentence,) = problems_of(tmp_path, text)
    assert said in sentence


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "binary", "huge"])
def test_what_is_no_file_for_settings_is_one_sentence(tmp_path, kind):
    path = tmp_path / "peers.yaml"
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "binary":
            path.write_bytes(b"\xff\xfe\0")
        case "huge":
            path.write_bytes(b"#" * (2 << 20))
    settings, (problem,) = examine_settings(path)
    assert settings is None and problem.severity == "error"


def test_a_file_that_is_not_written_yet_can_be_looked_at(tmp_path):
    settings, problems = examine_settings(tmp_path / "peers.yaml", b"agents: {a: {kind: mock}}")
    assert settings is not None and not problems
    assert settings == PeerSettings(agents=settings.agents)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_no_content_raises(content):
    examine_settings(Path("peers.yaml"), content)
