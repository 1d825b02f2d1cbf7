"""JSON without the package `json` is the same JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.tools.json_text import decode, encode

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
texts = st.text() | st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \t\n\r\\u') | values.map(json.dumps)

WITHOUT_JSON = """
from sortie.tools.json_text import decode, encode
assert decode(' {"a": [1, 2.5, null, "\\u00fc"]} ') == {"a": [1, 2.5, None, "\\xfc"]}
assert encode({"a": [1, 2.5, None, "\\xfc"]}) == '{"a":[1,2.5,null,"\\\\u00fc"]}'
for text in ("", "NaN", "1 2", "{"):
    try:
        decode(text)
    except ValueError:
        continue
    raise AssertionError(text)
"""

IN_ANOTHER_PYTHON = "import sys; sys.modules['_json'] = None\n" + WITHOUT_JSON


def refuse(name: str) -> None:
    raise ValueError(name)


def outcome(parse: Any, text: str) -> Any:
    try:
        return repr(parse(text))
    except ValueError:
        return ValueError


@given(values)
def test_values_are_written_as_json_writes_them(value):
    assert encode(value) == json.dumps(value, separators=(",", ":"))


@given(texts)
def test_texts_are_read_and_refused_as_json_does(text):
    assert outcome(decode, text) == outcome(lambda text: json.loads(text, parse_constant=refuse), text)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "[" * 100_000])
def test_what_json_would_let_pass_or_breaks_at_is_refused(text):
    with pytest.raises((ValueError, RecursionError)):
        decode(text)


@pytest.mark.parametrize("value", [object(), {1, 2}, [b"x"]])
def test_what_is_no_json_is_not_written(value):
    with pytest.raises(TypeError):
        encode(value)


def test_a_value_that_contains_itself_is_refused_every_time():
    ring: list[Any] = []
    ring.append(ring)
    for _ in range(2):
        with pytest.raises((ValueError, RecursionError)):
            encode(ring)


@pytest.mark.parametrize("program", [WITHOUT_JSON, IN_ANOTHER_PYTHON])
def test_it_is_the_same_before_the_package_is_loaded_and_without_the_c_code(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
