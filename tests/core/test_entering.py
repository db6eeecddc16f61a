"""A ``with`` over a hold that has ended: its body never runs, and nothing stays held."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncClient, Client, LockLost, NotHeld

URL = "memory://entering"


@pytest.mark.parametrize("ends", ["released", "lost"])
def test_the_body_of_a_hold_that_has_ended_does_not_run(ends: str) -> None:
    with Client(URL) as client, Client(URL) as other:
        hold = client.lock("a").acquire()
        if ends == "released":
            hold.release()
        else:
            assert other.break_("a", hold.fence)
            with pytest.raises(LockLost):
                hold.extend()
        # When it is entered while another client holds the name
        error = NotHeld if ends == "released" else LockLost
        with other.lock("a", timeout=5), pytest.raises(error), hold:
            pytest.fail("two bodies run at once")


def test_entering_several_of_which_one_is_lost_releases_the_others() -> None:
    with Client(URL) as client, Client(URL) as other:
        holds = client.all("a", "b").acquire()
        assert other.break_("a", holds.holds[0].fence)
        with pytest.raises(LockLost):
            holds.holds[0].extend()
        with pytest.raises(LockLost), holds:
            pytest.fail("the body runs without one of its locks")
        assert other.inspect() == []


def test_under_asyncio_the_body_of_a_hold_that_has_ended_does_not_run() -> None:
    async def main() -> None:
        async with AsyncClient(URL) as client:
            hold, holds = await client.lock("a").acquire(), await client.all("b", "c").acquire()
            await hold.release()
            await holds.holds[0].release()
            for ended in (hold, holds):
                with pytest.raises(NotHeld):
                    async with ended:
                        pytest.fail("the body runs without its lock")
            assert await client.inspect() == []

    asyncio.run(main())
