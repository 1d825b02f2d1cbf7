"""Whatever is in the file, it loads or is refused in words; nothing else happens."""

from __future__ import annotations

import string
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sortie.errors import ConfigurationError
from sortie.workflow.config import WorkflowSettings
from sortie.workflow.fields import entries, leaves
from sortie.workflow.loader import check, load

from .sample import ISSUE, KINDS, SETTINGS

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["unlimited", "$X", "${X}", "~", "~/x", "~y", "0x10", "1:30", "2024-01-01"]),
    st.dates(),
    st.binary(max_size=5),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
pieces = st.sampled_from(
    [
        "{{",
        "}}",
        "{%",
        "%}",
        " .issue",
        "issue.title",
        " if ",
        " end ",
        "range ",
        "for x in ",
        "\n",
        "|",
        "(",
        ")",
        '"',
        "$a",
    ]
)


def nested(assignments):
    result: dict[str, Any] = {}
    for key, value in assignments:
        *sections, name = key.split(".")
        place = result
        for section in sections:
            inner = place.get(section)
            place[section] = place = inner if isinstance(inner, dict) else {}
        place[name] = value
    return result


known_keys = st.sampled_from(
    [key.replace("*", "mock") for key, _, _ in leaves(WorkflowSettings())]
    + [*entries(WorkflowSettings), "server", "worker", "file"]
)
maps_of_known_keys = st.lists(st.tuples(known_keys, values), max_size=8).map(nested)


@pytest.fixture
def load_bytes(tmp_path):
    path = tmp_path / "WORKFLOW.md"
    return partial(load_or_refuse, path)


def load_or_refuse(path, content):
    path.write_bytes(content)
    try:
        workflow = load(path, environ={"HOME": "/home/me"}, kinds=KINDS)
    except ConfigurationError as error:
        assert error.problems
        assert all(problem.startswith(str(path)) for problem in error.problems)
    else:
        render_or_refuse(workflow.template)
    lines = content.count(b"\n") + content.count(b"\r") + 1
    assert all(0 <= problem.line <= lines for problem in check(path, environ={}, kinds=KINDS))


def render_or_refuse(template):
    try:
        template.render(ISSUE, attempt=0, turn=2, max_turns=3)
    except ConfigurationError as error:
        assert str(error)


@quick
@given(content=st.binary())
def test_any_bytes(load_bytes, content):
    load_bytes(content)


@quick
@given(front=st.binary(), body=st.binary())
def test_any_bytes_between_fences(load_bytes, front, body):
    load_bytes(b"---\n" + front + b"\n---\n" + body)


@quick
@given(front=st.text(alphabet=string.printable + "é\x85\u2028\0", max_size=60))
def test_any_text_as_settings(load_bytes, front):
    load_bytes(f"---\n{front}\n---\nprompt".encode())


@quick
@given(front=st.text(alphabet="ab:-{}[]*&!|>'\"%@#,?<\n ~.0x", max_size=60))
def test_any_yaml_punctuation_as_settings(load_bytes, front):
    load_bytes(f"---\n{front}\n---\nprompt".encode())


@quick
@given(content=st.dictionaries(st.text(max_size=8), values, max_size=5) | maps_of_known_keys)
def test_any_yaml_map(load_bytes, content):
    front = yaml.safe_dump(content, allow_unicode=True)
    load_bytes(f"---\n{front}\n---\nprompt".encode("utf-8", "surrogatepass"))


@quick
@given(body=st.lists(pieces | st.text(max_size=5), max_size=12).map("".join))
def test_any_prompt(load_bytes, body):
    load_bytes(f"---\n{SETTINGS}---\n{body}".encode("utf-8", "surrogatepass"))
