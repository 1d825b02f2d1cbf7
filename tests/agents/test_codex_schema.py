"""Everything that is said to Codex, held against the schema that Codex itself gives out."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from jsonschema import Draft7Validator

from sortie.agents.codex.codex_thread import DECLINED
from tests import npm
from tests.real_agents.programs import need

from .codex_lab import THREAD, TOOLS, Lab

pytestmark = npm.TIME_TO_INSTALL

ANSWERS = {
    "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
    "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
    "item/permissions/requestApproval": "PermissionsRequestApprovalResponse",
    "item/tool/requestUserInput": "ToolRequestUserInputResponse",
    "mcpServer/elicitation/request": "McpServerElicitationRequestResponse",
}
EVERYTHING = {
    "model": "m",
    "effort": "high",
    "approval_policy": "untrusted",
    "thread_sandbox": "read-only",
    "turn_sandbox_policy": {
        "type": "workspaceWrite",
        "writableRoots": [".git"],
        "networkAccess": True,
        "excludeTmpdirEnvVar": True,
        "excludeSlashTmp": False,
    },
    "personality": "friendly",
}


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    program = need("codex")
    home, out = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("schema")
    subprocess.run(
        [str(program), "app-server", "generate-json-schema", "--out", str(out)],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        check=True,
        capture_output=True,
        timeout=60,
    )

    def schema(name):
        return json.loads((out / f"{name}.json").read_text())

    return schema


@pytest.fixture
def lab(tmp_path, make_order, recorder):
    return Lab(tmp_path, make_order, recorder)


async def test_every_request_is_one_that_codex_knows(schema, lab, tmp_path, workspace):
    config = workspace / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"sortie-tools": TOOLS}}))
    order = {"mcp_config": config}
    home = {"HOME": str(tmp_path)}
    await lab.run("codex-ok", ["One", "Two"], order=order, **EVERYTHING)
    await lab.run("codex-resume", order={**order, "resume": THREAD}, **EVERYTHING)
    await lab.run("codex-login", environment={**home, "CODEX_API_KEY": "k"})

    requests, notifications = schema("ClientRequest"), schema("ClientNotification")
    sent = [json.loads(line) for line in lab.log.read_text().splitlines()]
    sent = [message for message in sent if "method" in message]
    assert len({message["method"] for message in sent}) == 7
    for message in sent:
        whole = requests if "id" in message else notifications
        problems = list(Draft7Validator(whole).iter_errors(message))
        assert not problems, (message, problems[0].message)
        unknown = set(message.get("params", {})) - fields_of(whole, message["method"])
        assert not unknown, (message["method"], unknown)


def test_the_interruption_is_one_that_codex_knows(schema):
    message = {"id": 1, "method": "turn/interrupt", "params": {"threadId": "a", "turnId": "b"}}
    assert not list(Draft7Validator(schema("ClientRequest")).iter_errors(message))


def test_every_question_gets_an_answer_that_codex_knows(schema):
    asked = {variant["properties"]["method"]["enum"][0] for variant in schema("ServerRequest")["oneOf"]}
    assert set(DECLINED) == set(ANSWERS) <= asked
    for method, answer in DECLINED.items():
        assert not list(Draft7Validator(schema(ANSWERS[method])).iter_errors(answer)), method


def fields_of(whole, method):
    """The names of the parameters, which the schema does not insist on."""
    [variant] = [v for v in whole["oneOf"] if v["properties"]["method"]["enum"] == [method]]
    params = variant["properties"].get("params", {})
    reference = params.get("$ref", "").rpartition("/")[2]
    found = whole["definitions"][reference] if reference else params
    variants = found.get("oneOf", [found])
    return {name for each in variants for name in each.get("properties", {})}
