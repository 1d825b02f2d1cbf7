"""What a run says reaches whoever reads, in order, once, and never more than fits."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from sortie.core.conclude import Outcome
from sortie.errors import SortieError
from sortie.runs.channel import MOST_CHARACTERS, MOST_LINES, Channel
from sortie.runs.messages import AtWork, Ended, Heard, Line, Proceed, Remark, Stop, TurnAsked

END = Ended(outcome=Outcome(status="succeeded", turns=1))


def line(text="x"):
    return Line(source="agent", text=text)


async def read(channel, after=0, most=10**9):
    heard = []
    async with aclosing(channel.messages(after)) as messages:
        async for numbered in messages:
            heard.append(numbered)
            if len(heard) == most:
                break
    return heard


async def test_messages_have_numbers_from_one_and_the_end_ends_them():
    read_to_end = []
    channel = Channel(on_read=lambda: read_to_end.append(True))
    for message in (AtWork(), line(), END):
        channel.tell(message)
    channel.tell(line("too late"))
    heard = await read(channel)
    assert [(one.number, one.message) for one in heard] == [(1, AtWork()), (2, line()), (3, END)]
    assert read_to_end == [True]


async def test_what_was_read_and_not_dealt_with_comes_again():
    channel = Channel()
    for number in range(5):
        channel.tell(line(str(number)))
    assert [one.number for one in await read(channel, most=3)] == [1, 2, 3]
    assert [one.number for one in await read(channel, after=2, most=2)] == [3, 4]
    assert [one.number for one in await read(channel, after=4, most=1)] == [5]


async def test_what_was_dealt_with_is_not_told_again():
    channel = Channel()
    for _ in range(3):
        channel.tell(line())
    await read(channel, after=1, most=1)
    assert [one.number for one in await read(channel, after=0, most=2)] == [2, 3]


async def test_there_is_nothing_after_what_was_never_said():
    channel = Channel()
    channel.tell(line())
    with pytest.raises(SortieError, match="none after 2"):
        await read(channel, after=2, most=1)


async def test_a_reader_waits_for_what_comes():
    channel = Channel()
    heard = []

    async def listen():
        heard.extend(await read(channel))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        for text in "abc":
            await anyio.lowlevel.checkpoint()
            channel.tell(line(text))
        channel.tell(END)
    assert [one.number for one in heard] == [1, 2, 3, 4]


async def test_a_question_is_answered_once_and_by_its_number():
    channel = Channel()
    answers = {}

    async def ask(turn):
        answers[turn] = await channel.ask(TurnAsked(turn=turn))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, 1)
        tasks.start_soon(ask, 2)
        asked = await read(channel, most=2)
        assert [one.message for one in asked] == [TurnAsked(turn=1), TurnAsked(turn=2)]
        channel.answer(99, Stop())
        channel.answer(2, Stop())
        channel.answer(2, Proceed())
        channel.answer(1, Proceed())
    assert answers == {1: Proceed(), 2: Stop()}


async def test_who_does_not_wait_any_more_gets_no_answer():
    channel = Channel()
    with anyio.move_on_after(0):
        await channel.ask(TurnAsked(turn=1))
    channel.answer(1, Proceed())


async def test_a_sign_of_life_need_not_be_repeated():
    channel = Channel()
    for message in (Heard(), Heard(), line(), Heard(), Heard(), END):
        channel.tell(message)
    assert [type(one.message) for one in await read(channel)] == [Heard, Line, Heard, Ended]


async def test_lines_beyond_the_limit_are_counted_and_nothing_else_is_dropped():
    channel = Channel()
    for number in range(MOST_LINES + 7):
        channel.tell(line(str(number)))
    channel.tell(AtWork())
    channel.tell(END)
    heard = await read(channel)
    assert [one.number for one in heard] == list(range(1, len(heard) + 1))
    *lines, works, gap, remark, end = [one.message for one in heard]
    assert len(lines) == MOST_LINES
    assert works == AtWork()
    assert (gap.source, gap.text.split()[0]) == ("note", "7")
    assert isinstance(remark, Remark)
    assert remark.message.startswith("7 lines")
    assert end == END


async def test_after_a_gap_lines_are_kept_again_when_half_of_them_was_read():
    channel = Channel()
    for _ in range(MOST_LINES + 5):
        channel.tell(line())
    await read(channel, most=10)
    channel.tell(line("still too many"))
    await read(channel, after=MOST_LINES // 2, most=1)
    await read(channel, after=MOST_LINES // 2 + 1, most=1)
    channel.tell(line("kept"))
    heard = [one.message for one in await read(channel, after=MOST_LINES - 1, most=3)]
    assert [message.text.split()[0] for message in heard] == ["x", "6", "kept"]


async def test_long_lines_count_by_their_length():
    channel = Channel()
    for _ in range(5):
        channel.tell(line("x" * (MOST_CHARACTERS // 4)))
    channel.tell(END)
    heard = [one.message for one in await read(channel)]
    assert [len(message.text) for message in heard[:4]] == [MOST_CHARACTERS // 4] * 4
    assert isinstance(heard[5], Remark)
