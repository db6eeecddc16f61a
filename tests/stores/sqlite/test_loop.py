"""The embedded store under asyncio: requests run in order, and end in their time."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.model import Claim, Held, Leave
from holdfast.core.ports import Store
from holdfast.errors import StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.sqlite import open_aio
from holdfast.testing import lag
from holdfast.testing.surroundings import surroundings
from holdfast.url import find
from tests.stores.sqlite.desk import WITHIN_S, Desk, claim
from tests.stores.sqlite.test_gate import sitting


def opened(path: Path) -> Store:
    return open_aio(find(f"sqlite://{path}")[1])


def leaving(left: Claim, ticket: int = 0) -> Leave:
    return Leave(left.spec.name, left.id, ticket)


def test_requests_that_queue_up_are_carried_out_in_the_order_of_asking(path: Path) -> None:
    async def main() -> None:
        here, wanted = opened(path), claim()
        assert await here.join(claim("opens"), True, WITHIN_S)
        gate = os.open(path.with_name("locks.db.d") / "gate", os.O_RDWR)
        # Given a blocked worker, and behind it a join and the leave that withdraws it
        fcntl.flock(gate, fcntl.LOCK_EX)
        busy = asyncio.ensure_future(here.join(claim("busy"), True, WITHIN_S))
        await asyncio.sleep(0.05)
        joining = asyncio.ensure_future(here.join(wanted, True, WITHIN_S))
        await asyncio.sleep(0)
        left = asyncio.ensure_future(here.leave(leaving(wanted), WITHIN_S))
        await asyncio.sleep(0)
        # When the worker can continue
        os.close(gate)
        # Then no claim of the two is left
        assert isinstance(await busy, Held)
        assert isinstance(await joining, Held)
        assert await left
        assert await here.inspect(wanted.spec.name, WITHIN_S, True) == []
        await here.close()

    asyncio.run(main())


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


#: A program that holds, detaches, and ends when its release has only been sent.
ENDS = """
import asyncio, sys
from holdfast.core.model import Change
from tests.stores.sqlite.test_loop import *
async def main(path):
    here, held = opened(path), claim(ttl=3600.0)
    answer = await here.join(held, True, 9)
    await here.change(Change(held, answer.fence, 3600.0, detach=True), 9)
    print('ready', flush=True)
    sys.stdin.readline()
    undo = here.leave(leaving(held, answer.fence), 9)
    undo.send(None)
    undo.close()
asyncio.run(main(sys.argv[1]))
"""


def test_what_was_asked_is_done_though_the_interpreter_ends(
    path: Path, desk: Callable[..., Desk]
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", ENDS, str(path)],
        env=surroundings(PYTHONPATH=os.pathsep.join(p for p in sys.path if p)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    with open(path.with_name("locks.db.d") / "gate") as gate:
        # When the file mutex is locked at that moment, for longer than the rest of the exit takes
        fcntl.flock(gate, fcntl.LOCK_EX)
        threading.Timer(0.5, fcntl.flock, (gate, fcntl.LOCK_UN)).start()
        out, err = program.communicate("go\n", timeout=30)
    assert (program.returncode, out, err) == (0, "", "")
    # Then the claim is released
    assert desk().lines() == []
