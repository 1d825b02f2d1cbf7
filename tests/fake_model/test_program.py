"""The fake model as a program: it says where it is, logs what it is asked, and ends when told to."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .client import DEADLINE, DIALECTS, scripted, wait_for

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.fake_model"]


@contextmanager
def running(*options: str):
    with subprocess.Popen(
        [*COMMAND, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            assert program.stdout is not None
            yield program, program.stdout.readline().decode().strip()
        finally:
            program.kill()


def ask(url: str, *steps, prompt: str = "", key: str = "") -> Any:
    body = json.dumps(DIALECTS[0].body([prompt or scripted(*steps)])).encode()
    request = urllib.request.Request(f"{url}/v1/messages", body, {"x-api-key": key})
    with urllib.request.urlopen(request, timeout=DEADLINE) as response:
        return json.load(response)["content"][0]


def test_it_serves_logs_and_ends_on_sigterm(tmp_path: Path):
    port, log = tmp_path / "port", tmp_path / "requests.jsonl"
    with running("--port-file", str(port), "--log", str(log), "--key", "k") as (program, url):
        assert url == f"http://127.0.0.1:{port.read_text()}"
        assert ask(url, {"text": "one"}, key="k")["text"] == "one"
        assert ask(url, {"shell": "ls"}, key="k")["name"] == "Bash"
        logged = [json.loads(line) for line in log.read_text().splitlines()]
        program.send_signal(signal.SIGTERM)
        output, errors = program.communicate(timeout=DEADLINE)
        assert (program.returncode, output, errors) == (0, b"", b"")
    assert [(line["wire"], line["did"], line["step"], line["prompts"]) for line in logged] == [
        ("anthropic", "text", 0, 1),
        ("anthropic", "shell", 0, 1),
    ]
    assert {line["authorised"] for line in logged} == {True}


def test_it_ends_while_a_client_hangs(tmp_path: Path):
    log = tmp_path / "requests.jsonl"
    with running("--script", '[{"hang": 3600}]', "--log", str(log)) as (program, url):
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps(DIALECTS[0].body(["no script"])).encode()
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as client:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            wait_for(lambda: log.read_text().endswith("\n"))
            program.send_signal(signal.SIGINT)
            assert client.recv(1) == b""
        assert program.wait(DEADLINE) == 0


def test_each_wire_can_have_a_script_of_its_own():
    with running("--script", '{"anthropic": [{"text": "for claude"}]}') as (_, url):
        assert ask(url, prompt="hello")["text"] == "for claude"
    with running("--script", '{"responses": [{"text": "for codex"}]}') as (_, url):
        assert ask(url, prompt="hello")["text"] == "no script in the prompt"


def test_it_answers_prompts_without_a_script_from_its_own():
    with running("--script", '[{"text": "by hand"}]') as (_, url):
        assert ask(url, prompt="hello")["text"] == "by hand"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--host", "0.0.0.0"], "unrecognized arguments: --host"),
        (["--script", "nonsense"], "fake model: --script must be JSON"),
        (["--script", "{}"], "fake model: --script must be a JSON list of steps"),
        (["--script", '[{"say": "x"}]'], "fake model: step 1 of the script"),
        (["--log", "/nowhere/at/all"], "fake model: [Errno 2] No such file or directory"),
        (["--port", "99999"], "fake model: "),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: list[str], complaint: str):
    done = subprocess.run([*COMMAND, *options], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "--port", port], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE
        )
    assert (done.returncode, "in use" in done.stderr) == (2, True)


def test_it_listens_on_the_loopback_address_alone():
    with running() as (_, url), pytest.raises(OSError):
        port = int(url.rpartition(":")[2])
        socket.create_connection(("127.0.0.2", port), timeout=DEADLINE)
