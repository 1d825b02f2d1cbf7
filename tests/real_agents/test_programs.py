"""The real agent programs are there in the versions of the table, and the installer keeps its promises."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import npm

from .network import loopback_only
from .programs import PROGRAMS, installed, main, need

pytestmark = npm.TIME_TO_INSTALL


def output(home: Path, *command: str | Path, **environment: str) -> str:
    """What the command says when it has a home of its own and no network."""
    done = subprocess.run(
        [*loopback_only(), *command],
        env={"PATH": os.environ["PATH"], "HOME": str(home), **environment},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_is_the_version_of_the_table(name, tmp_path):
    assert PROGRAMS[name].version in output(tmp_path, need(name), "--version")


def test_claude_agent_acp_runs_a_claude_of_its_own_unless_told_of_another(tmp_path):
    command = (need("claude-agent-acp"), "--cli", "--version")
    pinned = need("claude-code")
    assert output(tmp_path, *command) == "2.1.312 (Claude Code)\n"
    assert output(tmp_path, *command, CLAUDE_CODE_EXECUTABLE=str(pinned)) == output(tmp_path, pinned, "--version")


def test_codex_acp_runs_the_codex_of_the_table():
    packages = need("codex-acp").parents[1]
    manifest = json.loads((packages / "@openai" / "codex" / "package.json").read_bytes())
    assert manifest["version"] == PROGRAMS["codex"].version
    assert list(packages.rglob("@openai/codex/package.json")) == [packages / "@openai" / "codex" / "package.json"]


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="elsewhere each test says for itself what it skips")
def test_ci_runs_real_agents():
    problems = []
    for name in PROGRAMS:
        try:
            installed(name)
            return
        except npm.NotInstalled as problem:
            problems.append(str(problem))
    pytest.fail("No real agent was tested:\n" + "\n".join(problems))


def test_a_name_that_is_not_in_the_table_is_refused_with_those_that_are(capsys):
    assert main(["codex", "cortex"]) == 2
    assert capsys.readouterr().err.startswith("There is no program cortex; choose from claude-code, codex, ")


# -- the installer, with a program in the place of npm ----------------------------------------------------------


@pytest.fixture
def fake_npm(tmp_path, monkeypatch):
    """Write the shell script that is npm from now on; it runs in the folder to install into."""

    def write(script: str) -> None:
        program = tmp_path / "bin" / "npm"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return write


def install(root: Path, program: str = ".bin/tool") -> Path:
    return npm.installed("tool-1.0.0", ["tool@1.0.0"], program, cache=root / "cache")


GOOD = "mkdir -p node_modules/.bin && touch node_modules/.bin/tool"


def test_those_who_want_a_program_at_the_same_time_share_one_installation(tmp_path, fake_npm):
    fake_npm(GOOD)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(install, [tmp_path] * 8))
    assert found == {tmp_path / "cache/npm/tool-1.0.0/node_modules/.bin/tool"}
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.endswith(" tool@1.0.0")
    assert {"--ignore-scripts", "--save-exact"} < set(call.split())


def test_what_an_interrupted_installation_left_is_not_taken_for_a_program(tmp_path, fake_npm):
    fake_npm(f"{GOOD}; touch node_modules/half; exit 1")
    with pytest.raises(npm.NotInstalled):
        install(tmp_path)
    fake_npm(GOOD)
    program = install(tmp_path)
    assert [path.name for path in program.parents[1].iterdir()] == [".bin"]


def test_a_failure_is_one_sentence_with_what_npm_says(tmp_path, fake_npm):
    fake_npm("echo 'npm error code EAI_AGAIN' >&2; echo 'npm error more' >&2; exit 1")
    with pytest.raises(
        npm.NotInstalled, match=r"^npm cannot install tool@1.0.0 \(code EAI_AGAIN\); check the netw"
    ):
        install(tmp_path)


def test_a_package_without_the_program_is_not_installed(tmp_path, fake_npm):
    fake_npm(GOOD)
    with pytest.raises(npm.NotInstalled, match=r"^tool@1\.0\.0 has no native-\*/tool here; remove /"):
        install(tmp_path, "native-*/tool")
    fake_npm("mkdir -p node_modules/native-x64 && touch node_modules/native-x64/tool")
    assert install(tmp_path, "native-*/tool").parent.name == "native-x64"


PACKS = "mkdir -p package/data; echo '{}' > package/data/big.json; tar czf tool-1.0.0.tgz package; rm -r package"


def test_of_a_package_of_which_one_file_is_wanted_nothing_else_is_kept(tmp_path, fake_npm):
    fake_npm(f"{PACKS}; exit 1")
    with pytest.raises(npm.NotInstalled):
        npm.one_file("tool-1.0.0", "tool@1.0.0", "data/big.json", cache=tmp_path / "cache")
    fake_npm(PACKS)
    for _ in range(2):
        found = npm.one_file("tool-1.0.0", "tool@1.0.0", "data/big.json", cache=tmp_path / "cache")
    assert found.read_text() == "{}\n"
    assert {path.name for path in found.parent.iterdir()} == {"big.json", "lock"}
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_without_npm_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(npm.NotInstalled, match=r"^npm is missing; install Node\.js"):
        install(tmp_path)


@pytest.mark.parametrize(
    ("ci", "npm_is_there", "outcome"),
    [("", True, "Skipped"), ("true", False, "Skipped"), ("true", True, "Failed")],
)
def test_a_missing_program_skips_loudly_and_fails_in_ci_where_npm_is(
    ci, npm_is_there, outcome, tmp_path, fake_npm, monkeypatch
):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    if npm_is_there:
        fake_npm("exit 1")
    # Neither is an Exception, so that no test catches one by mistake.
    with pytest.raises(BaseException, match=r"^NOT TESTED: it is too heavy") as raised:
        npm.not_tested(npm.NotInstalled("it is too heavy."))
    assert type(raised.value).__name__ == outcome
