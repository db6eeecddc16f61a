"""Requests that tasks give up before the embedded store runs them: only a release still runs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from holdfast.core.model import Held
from holdfast.errors import StoreUnavailable
from tests.stores.sqlite.desk import WITHIN_S, claim
from tests.stores.sqlite.test_gate import sitting
from tests.stores.sqlite.test_loop import leaving, opened


def test_abandoned_requests_are_skipped_unless_they_release(path: Path) -> None:
    async def main() -> None:
        here = opened(path)
        held = await here.join(first := claim(), True, WITHIN_S)
        assert isinstance(held, Held)
        with sitting(path) as pid:
            # Given requests that were given up while a stopped process holds the file mutex
            given_up = [here.join(claim(), True, 0.1) for _ in range(20)]
            given_up += [here.leave(leaving(first, held.fence), 0.1)]
            for outcome in await asyncio.gather(*given_up, return_exceptions=True):
                assert isinstance(outcome, StoreUnavailable)
            # When this process continues
            os.kill(pid, signal.SIGCONT)
            # Then at most one join has entered the line, the one that waited for the file mutex;
            # and the released hold has ended
            claims = [one for line in await here.inspect("", WITHIN_S) for one in line.claims]
            assert len(claims) <= 1
            assert held.fence not in [one.fence for one in claims]
        await here.close()

    asyncio.run(main())
