"""Keys: safe as a path component, recognisable, never shared."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sortie.workspace.directory import LONGEST_PLAIN_KEY, workspace_key

near_misses = st.text(alphabet="a-_./0é ", max_size=12)
digest_lookalikes = st.builds(
    "{}-{}".format, near_misses, st.text(alphabet="0123456789abcdef", min_size=9, max_size=11)
)
identifiers = st.one_of(st.text(), near_misses, digest_lookalikes, near_misses.map(workspace_key))


@pytest.mark.parametrize(
    "identifier", ["PROJ-1", "1", "a_b", "a.b-c", "-x", "A" * LONGEST_PLAIN_KEY, "x-012345678"]
)
def test_a_safe_identifier_is_its_own_key(identifier):
    assert workspace_key(identifier) == identifier


@pytest.mark.parametrize(
    ("identifier", "beginning"),
    [
        ("a/1", "a_1-"),
        ("../../etc", ".._.._etc-"),
        ("", "-"),
        (".", ".-"),
        ("..", "..-"),
        (".incomplete", ".incomplete-"),
        ("größe\n", "gr__e_-"),
        ("x-0123456789", "x-0123456789-"),
        ("y" * 101, "y" * 80 + "-"),
        ("\ud800", "_-"),
    ],
)
def test_any_other_identifier_gets_a_digest(identifier, beginning):
    key = workspace_key(identifier)
    assert key.startswith(beginning)
    assert re.fullmatch(r"[0-9a-f]{10}", key.removeprefix(beginning))


@given(identifiers)
@example("..")
def test_a_key_is_always_one_safe_path_component(identifier):
    """A2O-01: only `[A-Za-z0-9._-]`, never empty, `.`, `..`, overlong or one of our own directories."""
    key = workspace_key(identifier)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", key)
    assert key not in (".", "..", ".incomplete")
    assert len(key) <= LONGEST_PLAIN_KEY
    assert workspace_key(identifier) == key


@given(identifiers, identifiers)
@example("a/1", "a_1")
@example("a/1", workspace_key("a/1"))
@example(workspace_key("a/1"), workspace_key(workspace_key("a/1")))
@example("z" * 200, "z" * 201)
def test_two_identifiers_never_share_a_key(one, other):
    """A2O-01: also where one identifier is the key of another."""
    assert (workspace_key(one) == workspace_key(other)) == (one == other)


@given(identifiers)
def test_the_key_of_a_key_is_another_one_unless_it_is_plain(identifier):
    key = workspace_key(identifier)
    assert (workspace_key(key) == key) == (key == identifier)
