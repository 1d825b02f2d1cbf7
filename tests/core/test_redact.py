from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from sortie.core.redact import MARK, Redactor

# Without the characters of the mark itself, from whose pieces a secret could arise anew.
letters = st.characters(exclude_categories=["Cs"], exclude_characters=MARK)
secrets = st.lists(st.text(letters, min_size=6, max_size=12), min_size=1, max_size=4)
few_letters = st.lists(st.text('ab\\\n"é', min_size=6, max_size=8), min_size=1, max_size=4)


@st.composite
def texts_with_secrets(draw):
    hidden = draw(secrets | few_letters)
    parts = draw(st.lists(st.sampled_from(hidden) | st.text(letters, max_size=6), max_size=8))
    return hidden, "".join(parts)


@given(texts_with_secrets())
@example((["abcdef", "defghi"], "abcdefghi"))
@example((["aaaaaa"], "aaaaaaaaaaa"))
def test_no_secret_survives(case):
    hidden, text = case
    redactor = Redactor(hidden)
    shown = redactor.text(text)
    raw = redactor.raw(text.encode())
    in_json = redactor.text(json.dumps({"say": text}))
    in_utf8_json = redactor.text(json.dumps({"say": text}, ensure_ascii=False))
    for secret in hidden:
        assert secret not in shown
        assert secret.encode() not in raw
        assert json.dumps(secret)[1:-1] not in in_json
        assert json.dumps(secret, ensure_ascii=False)[1:-1] not in in_utf8_json


@given(texts_with_secrets())
def test_text_and_bytes_are_treated_alike(case):
    hidden, text = case
    redactor = Redactor(hidden)
    assert redactor.raw(text.encode()).decode() == redactor.text(text)


@given(st.text(), st.binary())
def test_without_secrets_nothing_changes(text, data):
    redactor = Redactor(["", "short"])
    assert redactor.text(text) == text
    assert redactor.raw(data) == data


@given(st.text(letters, max_size=20), st.text(letters, max_size=20))
def test_what_surrounds_a_secret_stays(before, after):
    assert Redactor(["[12345]"]).text(f"{before}[12345]{after}") == f"{before}{MARK}{after}"


def test_overlapping_secrets_leave_no_rest():
    assert Redactor(["abcdef", "defghi"]).text("xabcdefghiy") == f"x{MARK}y"
    assert Redactor(["abcdefghij", "cdefgh"]).text("xabcdefghijy") == f"x{MARK}y"


def test_neighbouring_secrets_are_both_hidden():
    assert Redactor(["abcdef"]).text("abcdefabcdef-abcdef") == f"{MARK}{MARK}-{MARK}"


def test_a_secret_of_several_lines_is_hidden_line_by_line():
    redactor = Redactor(["-----BEGIN-----\nMIIabcdef\n"])
    assert redactor.text("key: MIIabcdef.") == f"key: {MARK}."


def test_a_secret_inside_json_is_hidden():
    assert Redactor(['pä"ss\\word']).text(json.dumps({"k": 'pä"ss\\word'})) == f'{{"k": "{MARK}"}}'


def test_bytes_that_are_not_text_stay_as_they_are():
    assert Redactor(["secret-é"]).raw(b"\xff\0secret-\xc3\xa9\xfe") == b"\xff\0" + MARK.encode() + b"\xfe"


def test_secrets_from_an_environment_that_is_not_utf8_are_hidden():
    secret = b"secret-\xff".decode("utf-8", "surrogateescape")
    assert Redactor([secret]).raw(b"x secret-\xff x") == f"x {MARK} x".encode()
