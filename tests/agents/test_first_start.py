"""The first one goes through alone, then all at once."""

from __future__ import annotations

import anyio
import pytest

from sortie.agents.cli_agent import FirstStart


async def test_the_others_wait_for_the_first_and_then_for_nobody():
    first = FirstStart()
    inside: list[int] = []
    most: list[int] = []
    all_inside = anyio.Event()

    async def go_through(number: int) -> None:
        async with first.gate():
            inside.append(number)
            most.append(len(inside))
            if number == 0:
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                assert inside == [0], "nobody came along"
            else:
                if len(inside) == 3:
                    all_inside.set()
                await all_inside.wait()
            inside.remove(number)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(go_through, number)
    assert max(most) == 3


async def test_one_that_fails_leaves_the_gate_to_the_next():
    first = FirstStart()
    with pytest.raises(ValueError, match="broken"):
        async with first.gate():
            raise ValueError("broken")
    with anyio.fail_after(10):
        async with first.gate():
            pass
