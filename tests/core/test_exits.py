"""User functions that raise any BaseException: it is logged, and other holds continue."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing.faces import FACES
from holdfast.testing.promise import promised


class _Exit(BaseException):
    """An exception like those of pytest, gevent and trio."""


EXITS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), _Exit()]
TTL = 1.5


@pytest.mark.parametrize("exits", EXITS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("kind", ["sync", "aio", "aio, awaited"])
def test_an_on_lost_that_exits_is_logged_and_ends_no_renewal_of_others(
    exits: BaseException, kind: str, space: str, caplog: pytest.LogCaptureFixture
) -> None:
    face = FACES[kind.partition(",")[0]]

    def called(*_: object) -> NoReturn:
        raise exits

    async def awaited(*_: object) -> NoReturn:
        raise exits

    async def main() -> None:
        # Given two holds of one client; the on_lost function of the first one exits
        async with face.client(space) as locks, face.client(space) as rival:
            call = awaited if "awaited" in kind else called
            lost = await locks.lock("lost", ttl=TTL, on_lost=call).acquire()
            other = await locks.lock("other", ttl=TTL).acquire()
            # When the first hold is broken
            await rival.break_("lost", lost.fence)
            end = boottime() + 10
            while "callback of 'lost' raised" not in caplog.text and boottime() < end:
                await face.sleep(0.01)
            await face.sleep(1.5 * TTL)
            # Then the other hold is still renewed
            with promised("a hold lasts while it is renewed"):
                assert other.lost is None
            assert lost.lost is not None

    face.run(main, 60)
    assert "callback of 'lost' raised" in caplog.text
    assert type(exits).__name__ in caplog.text
