"""The page about the HTTP API: its calls are made on a real server, and its tables are those of the code."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sortie.store.lock import held
from sortie.web.api_v2_operations import OPERATIONS
from sortie.web.metrics_catalogue import COUNTERS, GAUGES, HISTOGRAMS
from sortie.web.stream import STREAM as STREAM_DESCRIBED
from sortie.web.tokens import new_token

from ..web.api_scene import busy_server
from ..web.event_reader import PATH as STREAM
from ..web.event_reader import listening
from ..web.live_server import Answer, LiveServer
from .console import steps

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")
WHERE = "http://127.0.0.1:7678"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with busy_server(tmp_path_factory.mktemp("busy")) as started:
        yield started


def made(server: LiveServer, command: str, token: str) -> Answer:
    """What curl would get."""
    program, *arguments = shlex.split(command.replace("$TOKEN", token))
    assert program == "curl"
    method, headers, body, address = "", dict[str, str](), None, ""
    while arguments:
        match arguments.pop(0):
            case "-s":
                pass
            case "-X":
                method = arguments.pop(0)
            case "-H":
                name, _, value = arguments.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                body = arguments.pop(0)
            case url:
                assert url.startswith(WHERE)
                address = url.removeprefix(WHERE)
    return server.request(method or ("POST" if body else "GET"), address, headers, body)


def differences(shown: Any, real: Any, where: str = "") -> Iterator[str]:
    """Where the answer has other fields or types than the page shows; of a list the first item counts."""
    if isinstance(shown, dict) and isinstance(real, dict):
        if shown.keys() != real.keys():
            yield f"{where}: {sorted(shown.keys() ^ real.keys())}"
        for name in shown.keys() & real.keys():
            yield from differences(shown[name], real[name], f"{where}.{name}")
    elif isinstance(shown, list) and isinstance(real, list):
        if shown and real:
            yield from differences(shown[0], real[0], f"{where}[0]")
        elif shown:
            yield f"{where} is empty"
    elif type(shown) is not type(real):
        yield f"{where}: the page shows {shown!r}, the answer is {real!r}"


def test_every_call_of_the_page_answers_what_the_page_shows(server):
    token = new_token(server.site.database, "operate")
    calls = [(command, printed) for command, printed in steps(PAGE) if STREAM not in command]
    assert len(calls) > 6
    for command, printed in calls:
        shown, real = json.loads("\n".join(printed)), made(server, command, token).json
        assert [*differences(shown, real)] == [], command
        if "error" in shown or "counts" in shown:
            assert {**shown, **{name: real[name] for name in ("error", "counts") if name in real}} == shown


def test_the_stream_says_what_the_page_shows(server):
    ((command, printed),) = (step for step in steps(PAGE) if STREAM in step[0])
    program, how, url = shlex.split(command)
    assert (program, how) == ("curl", "-sN")
    first, *messages = "\n".join(printed).strip().split("\n\n")
    query = url.removeprefix(WHERE + STREAM)
    with held(server.site.database, {"pid": 1}), listening(server, query) as reader:
        assert (reader.block() or b"").decode() == first
        for message in messages:
            shown = dict(line.split(": ", 1) for line in message.splitlines())
            real = reader.until(shown["event"])
            assert shown.get("id") == (None if real.seq is None else str(real.seq))
            assert [*differences(json.loads(shown["data"]), real.data)] == []


def test_the_page_has_every_message_of_the_stream():
    described = re.findall(r"`(\w+)`", STREAM_DESCRIBED.told)
    section = PAGE.partition("### Events as they happen")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == described


def test_the_page_has_every_operation_with_its_parameters():
    rows = re.findall(r"^\| `(GET|POST) (/api/v2\S*)` \| (.*) \|$", PAGE, re.M)
    told = {(method, path): text for method, path, text in rows}
    everything = (*OPERATIONS, STREAM_DESCRIBED)
    wanted = {(operation.method, f"/api/v2{operation.path}"): operation for operation in everything}
    assert told.keys() == wanted.keys()
    for key, operation in wanted.items():
        assert all(f"`{name}`" in told[key] for name in operation.query.__struct_encode_fields__), key


def test_the_page_has_every_metric_with_its_type_and_labels():
    found = set(re.findall(r"^\| `(sortie_\w+)(\{[\w,]+\})?` \| (\w+) \|", PAGE, re.M))
    wanted = {
        (metric.sample, f"{{{','.join(metric.labels)}}}" if metric.labels else "", metric.kind)
        for metric in (*COUNTERS, *GAUGES, *HISTOGRAMS)
    }
    assert found == wanted


def test_the_page_has_every_alert():
    (group,) = yaml.safe_load((ROOT / "examples/monitoring/sortie.rules.yml").read_text())["groups"]
    assert re.findall(r"^\| `(Sortie\w+)` \|", PAGE, re.M) == [rule["alert"] for rule in group["rules"]]
