"""What all readers share: counting, cutting, and never believing a success that the agent did not state."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sortie.agents.agent import Used
from sortie.agents.turn_reader import LINE_LIMIT, Meter, TurnExit, message_lines, shorten
from sortie.core.model import Usage
from sortie.errors import AgentError
from sortie.process.pipes import LineSplitter

from .playing import Played, recorded
from .readers import READERS, completed, transcripts_of

counts = st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, st.floats(0, 1000))

scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=9)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.lists(usages, max_size=8))
def test_running_totals_add_up_to_the_last_one(totals):
    """Totals that fall back, as after a compaction, never make an amount negative."""
    meter = Meter()
    reported = [used.usage for total in totals for used in meter.reach(total)]
    assert all(min(part.input, part.output, part.cache_read, part.cost_usd) >= 0 for part in reported)
    assert sum(part.input for part in reported) == max((total.input for total in totals), default=0)


def test_a_total_counts_only_what_amounts_have_not_told():
    meter = Meter()
    assert list(meter.add(Usage(10, 1))) == [Used(Usage(10, 1))]
    assert list(meter.reach(Usage(12, 5, 0, 0.5))) == [Used(Usage(2, 4, 0, 0.5))]
    assert list(meter.reach(Usage(12, 5, 0, 0.5))) == []


@given(st.text(max_size=10_000))
def test_speech_is_short_lines_without_empty_ones(text):
    said = list(message_lines(text))
    assert all(line.text.strip() and len(line.text) <= 4_000 for line in said)
    assert not any("\n" in line.text for line in said)


@given(values)
def test_anything_fits_on_one_line(value):
    assert "\n" not in shorten(value)
    assert len(shorten(value)) <= 200


@pytest.fixture(params=list(READERS))
def kind(request):
    return request.param


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.binary(max_size=300), max_size=20), code=st.integers(0, 255))
def test_any_bytes_are_read_and_make_no_success(lines, code):
    for make in READERS.values():
        played = Played(make(), lines, TurnExit(code=code))
        assert played.error is not None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_recorded_output_with_any_field_replaced_never_raises(data):
    """Unknown events and wrong types, in every place of every event, for every agent."""
    kind = data.draw(st.sampled_from(list(READERS)))
    lines = [json.loads(line) for line in recorded(data.draw(st.sampled_from(transcripts_of(kind))))]
    victim = data.draw(st.integers(0, len(lines) - 1))
    lines[victim] = data.draw(_spoiled(lines[victim]))
    Played(READERS[kind](), [json.dumps(line).encode() for line in lines])


def _spoiled(event):
    """The event with one value, at any depth, replaced or removed."""
    places = list(_places(event)) or [()]

    @st.composite
    def spoil(draw):
        place = draw(st.sampled_from(places))
        copy = json.loads(json.dumps(event))
        if not place:
            return draw(values)
        target = copy
        for key in place[:-1]:
            target = target[key]
        if draw(st.booleans()):
            target[place[-1]] = draw(values)
        else:
            del target[place[-1]]
        return copy

    return spoil()


def _places(value, place=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*place, key)
        yield from _places(inner, (*place, key))


# Text that no character can be made of: bytes, and halves of surrogate pairs in the middle and at the end.
BROKEN = (b"\xff\xc3(", rb"\ud800", rb"\udc00\ud83d", rb"a\\\ud800\n")
# What agents pass on of what people, models and tools wrote.
WORDS = {"text", "content", "result", "output", "title", "command", "aggregatedOutput", "stdout", "query"}


def _with_marks(value, mark):
    """The event with the mark at the end of all words, at every depth."""
    if isinstance(value, list):
        return [_with_marks(inner, mark) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        key: inner + mark if key in WORDS and isinstance(inner, str) else _with_marks(inner, mark)
        for key, inner in value.items()
    }


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_text_spoils_no_turn(kind, broken):
    """Invalid UTF-8 and lone surrogates, wherever text stands: a turn ends as it would without them."""
    mark = "@broken@"
    for name in transcripts_of(kind):
        lines = recorded(name)
        spoiled = [
            json.dumps({**_with_marks(json.loads(line), mark), "novelty": mark})
            .encode()
            .replace(mark.encode(), broken)
            for line in lines
        ]
        whole, heard = Played(READERS[kind](), lines), Played(READERS[kind](), spoiled)
        assert (heard.outcome, heard.usage) == (whole.outcome, whole.usage), name
        assert len(heard.tools) == len(whole.tools), name
        told = [str(event) for event in heard.events]
        assert not [text for text in told if text.encode("utf-8", "replace").decode() != text], name


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_and_any_escapes_within_a_string_are_read(data):
    piece = st.binary(max_size=6) | st.sampled_from(
        [rb"\u%04x" % half for half in (0xD800, 0xDBFF, 0xDC00, 0xDFFF)]
    )
    text = b"".join(data.draw(st.lists(piece, max_size=8)))
    whole = b"".join(bytes([byte]) for byte in text if byte >= 32 and byte != 34)  # what ends a string or a line
    assume(not (len(whole) - len(whole.rstrip(b"\\"))) % 2)
    assume(_is_json_apart_from_its_text(b'"' + whole + b'"'))
    kind = data.draw(st.sampled_from(list(READERS)))
    lines = recorded(data.draw(st.sampled_from(transcripts_of(kind))))
    odd = [line[:-1] + b',"novelty":"' + whole + b'"}' for line in lines]
    assert Played(READERS[kind](), odd).outcome == Played(READERS[kind](), lines).outcome


def _is_json_apart_from_its_text(text):
    try:
        json.loads(text.decode("utf-8", "replace"))
    except ValueError:
        return False
    return True


NASTY = (
    "Rate limiter initialised\nindexed 403 files",
    "Error: 401 Unauthorized, please log in",
    "No conversation found with session ID: x\nerror: unknown option",
    "Session not found\nConfiguration is invalid\n[boolean]",
    "Error resuming session: Invalid session identifier",
    "No authentication information found. No session or task matched. error: unexpected argument",
    "--dangerously-skip-permissions cannot be used with root",
)


@pytest.mark.parametrize("stderr", NASTY)
def test_an_agent_that_a_signal_ended_is_judged_by_the_signal(kind, stderr):
    """Also where a shell tells it as 128 and the number, and where the signal was ours."""
    for ending in (
        TurnExit(137),
        TurnExit(143),
        TurnExit(None, 9),
        TurnExit(None, 15, by_us=True),
        TurnExit(1, by_us=True),
    ):
        reader = READERS[kind]()
        error = reader.verdict(replace(ending, stderr=stderr))
        assert error and error.kind == AgentError.UNFINISHED


def test_output_cut_anywhere_before_the_last_word_is_no_success(kind):
    for name in transcripts_of(kind):
        lines = recorded(name)
        end = next((n for n in range(len(lines) + 1) if completed(kind, lines[:n])), None)
        if end is None:
            continue
        last = lines[end - 1]
        for cut in {0, 1, len(last) // 3, len(last) - 1}:
            assert not completed(kind, [*lines[: end - 1], last[:cut]]), (name, cut)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_chunks_of_any_size_say_the_same(data):
    kind = data.draw(st.sampled_from(list(READERS)))
    lines = recorded(data.draw(st.sampled_from(transcripts_of(kind))))
    stream = b"\n".join(lines) + b"\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = LineSplitter(LINE_LIMIT)
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    heard = [line for piece in pieces for line in splitter.feed(piece)] + splitter.finish()
    whole, split = Played(READERS[kind](), lines), Played(READERS[kind](), heard)
    assert (split.outcome, split.usage, split.said) == (whole.outcome, whole.usage, whole.said)


def test_a_line_of_twenty_megabytes_is_read_and_one_beyond_the_limit_is_no_success(kind):
    reader = READERS[kind]()
    huge = json.dumps({"type": "unknown", "method": "unknown", "text": "x" * 20_000_000}).encode()
    assert reader.read(huge)
    nested = b"[" * 200_000 + b"]" * 200_000
    assert reader.read(nested)
    assert reader.verdict(TurnExit()) is not None


def test_what_comes_after_the_last_word_does_not_raise(kind):
    for name in transcripts_of(kind):
        lines = recorded(name)
        Played(READERS[kind](), lines + lines)
