"""Requests of the embedded store under asyncio that get no reply in time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.stores.sqlite.desk import WITHIN_S
from tests.stores.sqlite.test_gate import sitting
from tests.stores.sqlite.test_loop import opened

lag.watch()


def test_each_of_several_requests_ends_at_its_own_time(path: Path) -> None:
    async def main() -> None:
        # Given a client whose worker is blocked
        here = opened(path)
        assert await here.inspect("", WITHIN_S) == []
        loop, ended = asyncio.get_running_loop(), dict[float, float]()
        begun = loop.time()

        async def ask(within: float) -> None:
            with pytest.raises(StoreUnavailable, match=f"within {within:g} s"):
                await here.inspect("", within)
            ended[within] = loop.time() - begun

        with sitting(path):
            patient = asyncio.create_task(here.inspect("", 20.0))
            # When requests with different time limits wait for it, and one more comes later
            asked = [asyncio.create_task(ask(within)) for within in (1.5, 0.4, 0.9)]
            await asyncio.sleep(0.6)
            asked.append(asyncio.create_task(ask(0.2)))
            await asyncio.gather(*asked)
        # Then each ends at its own time, and the request with the longest limit gets a reply
        assert list(ended) == [0.4, 0.2, 0.9, 1.5]
        assert all(took >= within for within, took in ended.items())
        late = lag.since(boottime() - ended[1.5])
        assert ended[0.4] < 0.6 + late
        assert ended[1.5] < 2.5 + late
        assert await patient == []
        await here.close()

    asyncio.run(main())
