"""A client while another session locks a row: it uses few sessions, and can renew and release.

The tests of a store import these. It has the fixtures ``bench`` and ``alone``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, HoldfastError
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from tests.servers.process import until
from tests.stores.sql.bench import Bench
from tests.torture.scale import FULL

lag.watch()

#: Maximum seconds for a renewal and a release together. Without a separate connection they take 0.5
#: s or more.
SOON_S = 0.3
#: Seconds for which all threads or tasks try.
SECONDS = 10.0 if FULL else 2.0
THREADS = 10
#: Number of connections of a client.
POOL = 4
EACH = pytest.mark.parametrize("face", FACES.values(), ids=FACES)


def most_sessions(face: Face, url: str, name: str, sessions: Callable[[], int]) -> int:
    """The maximum number of sessions while threads or tasks try to get a name without waiting."""

    async def main() -> int:
        async with face.client(url) as client:
            end, most = time.monotonic() + SECONDS, 0

            async def work() -> None:
                while time.monotonic() < end:
                    with contextlib.suppress(HoldfastError):
                        await client.lock(name).acquire(timeout=0)

            many = [face.start(work) for _ in range(THREADS)]
            while time.monotonic() < end:
                most = max(most, await face.outside(sessions))
                await face.sleep(0.05)
            for one in many:
                await one.result(60)
            return most

    return face.run(main, SECONDS + 120)


@pytest.mark.usual(1)
@EACH
def test_a_stalled_row_takes_up_no_more_than_the_pool(
    bench: Bench, alone: Any, own_name: str, face: Face
) -> None:
    with Client(alone.url) as client:
        client.lock(own_name).acquire().release()
    url = bench.labelled(alone, own_name, POOL)
    until(lambda: not bench.sessions(alone, own_name), "all sessions have ended")
    # Given a session that has locked the row of the name
    with bench.locked(own_name, alone):
        # When many threads or tasks try to get it, again and again
        most = most_sessions(face, url, own_name, lambda: bench.sessions(alone, own_name))
    assert 1 <= most <= POOL + 2
    # Then it works when the row is free
    with Client(url) as client, client.lock(own_name, timeout=20):
        pass
    until(lambda: not bench.sessions(alone, own_name), "all sessions have ended")


@EACH
def test_a_release_finds_a_connection_while_others_wait_for_a_row(
    bench: Bench, alone: Any, own_name: str, face: Face
) -> None:
    name, row = own_name, bench.locked(own_name, alone)

    async def main() -> None:
        client = face.client(bench.labelled(alone, name, POOL))
        held = [await client.lock(f"{name}:{one}", ttl=12).acquire() for one in range(3)]
        await (await client.lock(name).acquire()).release()
        stop = False

        async def want() -> None:
            while not stop:
                with contextlib.suppress(HoldfastError):
                    async with client.lock(name, timeout=8):
                        pass

        # Given a session that has locked the row of a name, and many who want that name
        await face.outside(row.__enter__)
        try:
            many = [face.start(want) for _ in range(THREADS)]
            took: list[float] = []
            # Then other holds are renewed and released at once
            for hold in held:
                await face.sleep(1.5)
                begun = time.monotonic()
                await hold.extend()
                assert await hold.release()
                took.append(time.monotonic() - begun - lag.since(begun))
                if took[-1] < SOON_S:
                    break
            stop = True
        finally:
            await face.outside(lambda: row.__exit__(None, None, None))
        for one in many:
            await one.result(30)
        await client.close()
        assert took[-1] < SOON_S, took

    face.run(main, 60.0)
