"""What an agent was told is kept: bounded, readable whatever happened to the file, and never in the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.runs.prompt_log import LONGEST_PROMPT, MOST_BYTES, Prompt, keep_prompt, kept_prompts, prompts_path


def as_it_is(text: str) -> str:
    return text


@pytest.fixture
def path(tmp_path):
    return prompts_path(tmp_path / ".sortie.db", "run-1")


def test_prompts_are_told_in_the_order_of_their_turns(path):
    keep_prompt(path, 1, 10.0, "first\nline")
    keep_prompt(path, 2, 20.0, "go on")
    assert kept_prompts(path, as_it_is) == [
        Prompt(turn=1, at=10.0, text="first\nline"),
        Prompt(turn=2, at=20.0, text="go on"),
    ]
    assert path.stat().st_mode & 0o077 == 0


def test_a_run_of_which_none_is_kept_has_none(path):
    assert kept_prompts(path, as_it_is) == []
    path.mkdir(parents=True)
    assert kept_prompts(path, as_it_is) == []


def test_a_huge_prompt_is_cut_and_says_so(path):
    keep_prompt(path, 1, 1.0, "x" * (LONGEST_PROMPT + 1))
    (found,) = kept_prompts(path, as_it_is)
    assert (len(found.text), found.is_cut) == (LONGEST_PROMPT, True)


def test_a_run_of_many_turns_keeps_what_there_is_room_for(path):
    for turn in range(1, 50):
        keep_prompt(path, turn, 1.0, "x" * LONGEST_PROMPT)
    assert path.stat().st_size <= MOST_BYTES
    turns = [prompt.turn for prompt in kept_prompts(path, as_it_is)]
    assert turns == list(range(1, len(turns) + 1)) and len(turns) > 20


def test_what_is_torn_hides_nothing_else(path):
    keep_prompt(path, 1, 1.0, "one")
    with path.open("ab") as file:
        file.write(b'{"turn": 2, "at": 1.0, "te\n\xff\xfe\n[]\n')
    keep_prompt(path, 3, 3.0, "three")
    assert [prompt.turn for prompt in kept_prompts(path, as_it_is)] == [1, 3]


def test_a_link_is_not_written_through(path, tmp_path):
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        keep_prompt(path, 1, 1.0, "x")
    assert not (tmp_path / "elsewhere").exists()


def test_secrets_that_are_known_later_are_hidden(path):
    keep_prompt(path, 1, 1.0, "the key is sesame")
    assert kept_prompts(path, lambda text: text.replace("sesame", "***"))[0].text == "the key is ***"


@given(text=st.text(st.characters(codec=None), max_size=200))
def test_any_text_comes_back_but_for_halves_of_characters(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "run.prompts"
    keep_prompt(path, 1, 1.0, text)
    (found,) = kept_prompts(path, as_it_is)
    assert found.text == text.encode("utf-8", "replace").decode()
