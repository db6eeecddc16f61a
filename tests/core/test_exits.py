"""User functions that raise any BaseException: it is logged, and other holds continue."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NoReturn

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.promise import promised


class _Exit(BaseException):
    """An exception like those of pytest, gevent and trio."""


EXITS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), _Exit()]
every_exit = pytest.mark.parametrize("exits", EXITS, ids=lambda one: type(one).__name__)
TTL = 1.5


def raising(exits: BaseException) -> Any:
    """Return a function that raises this exception, whatever its arguments are."""

    def call(*_: object) -> NoReturn:
        raise exits

    return call


@every_exit
def test_an_on_lost_that_exits_is_logged_and_ends_no_renewal_of_others(
    exits: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    # Given two holds of one client; the on_lost function of the first one exits
    with Client("memory://exits") as locks:
        lost = locks.lock("lost", ttl=TTL, on_lost=raising(exits)).acquire()
        other = locks.lock("other", ttl=TTL).acquire()
        # When the first hold is broken
        Client("memory://exits").break_("lost", lost.fence)
        began = time.monotonic()
        while "callback of 'lost' raised" not in caplog.text:
            assert time.monotonic() < began + 10, "the callback was not heard of"
            time.sleep(0.01)
        time.sleep(1.5 * TTL)
        # Then the other hold is still renewed
        with promised("a hold lasts while it is renewed"):
            assert other.lost is None
        assert lost.lost is not None
    assert type(exits).__name__ in caplog.text


@every_exit
@pytest.mark.parametrize("awaited", [False, True], ids=["called", "awaited"])
def test_the_same_under_asyncio(
    exits: BaseException, awaited: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def exiting(*_: object) -> NoReturn:
        raise exits

    async def main() -> None:
        async with AsyncClient("memory://exits-aio") as locks:
            call = exiting if awaited else raising(exits)
            lost = await locks.lock("lost", ttl=TTL, on_lost=call).acquire()
            other = await locks.lock("other", ttl=TTL).acquire()
            await AsyncClient("memory://exits-aio").break_("lost", lost.fence)
            async with asyncio.timeout(10):
                while "callback of 'lost' raised" not in caplog.text:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(1.5 * TTL)
            with promised("a hold lasts while it is renewed"):
                assert other.lost is None

    asyncio.run(main())
    assert type(exits).__name__ in caplog.text
