"""A task continues as soon as its reply is there, and no other task is left asleep."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.stores.redis.aio.answer import Answer, new_answer, wake_all


def test_a_ctrl_c_in_one_task_leaves_no_other_asleep() -> None:
    async def struck(answer: Answer) -> None:
        await answer
        raise KeyboardInterrupt

    async def other(answer: Answer) -> object:
        return await answer

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        answers = [new_answer(loop) for _ in range(3)]
        first = loop.create_task(struck(answers[0]))
        others = [loop.create_task(other(one)) for one in answers[1:]]

        def arrived() -> None:
            for number, one in enumerate(answers):
                one.give(number)
            wake_all(answers)

        loop.call_later(0.01, arrived)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert isinstance(first.exception(), KeyboardInterrupt)
        assert loop.run_until_complete(asyncio.wait_for(asyncio.gather(*others), 5)) == [1, 2]


def test_an_answer_that_is_cancelled_wakes_its_task_as_any_future_does() -> None:
    async def main() -> None:
        answer = new_answer(asyncio.get_running_loop())
        task = asyncio.ensure_future(asyncio.wait_for(answer, 5))
        await asyncio.sleep(0)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
