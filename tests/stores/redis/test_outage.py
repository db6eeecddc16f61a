"""An outage of two fifths of the lease costs no hold, whatever its kind and its moment."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Proxy, dice
from tests.torture.scale import times

OUTAGES = times(100, 2)
#: The number of holds of each client.
HOLDS = 5
#: The first attempt is given up after a second, which is a large part of a short lease.
TTL_S = 8
OUTAGE_S = 0.4 * TTL_S
#: The pause between two outages: at least the time that a client needs to connect again.
BREAK_S = 0.5 * TTL_S, 0.9 * TTL_S
LIFE_S = 2000.0
#: A loss counts if the machine was late by less than this during that lease.
LATE_S = 0.05 * TTL_S
lag.watch()


async def hold_all(face: Face, url: str, name: str, ready: Event, over: Event) -> list[str]:
    """Hold some locks until ``over``; return the holds that were lost or not released."""
    wrong: list[str] = []

    def lost(hold: Any, reason: object) -> None:
        late = lag.since(boottime() - TTL_S)
        print(f"{hold.name}: {reason}; the machine was late by {late:.2f} s of {TTL_S} s then")
        if late < LATE_S:
            wrong.append(f"{hold.name}: {reason}")

    async with face.client(url) as client:
        holds = [await client.lock(f"{name}:{at}", ttl=TTL_S).acquire() for at in range(HOLDS)]
        for hold in holds:
            hold.on_lost(lost)
        ready.set()
        await face.outside(over.wait)
        kept = [hold for hold in holds if hold.lost is None]
        return wrong + [f"{hold.name}: not released" for hold in kept if not await hold.release()]


def test_an_outage_of_two_fifths_of_the_lease_costs_no_hold(proxy: Proxy, own_name: str) -> None:
    chance, over = dice("outages"), Event()
    crew = list(itertools.product(FACES.values(), (2, 3)))
    readies = [Event() for _ in crew]

    def run(at: int) -> list[str]:
        face, protocol = crew[at]
        url, name = f"redis://127.0.0.1:{proxy.port}?protocol={protocol}", f"{own_name}:{at}"
        return face.run(lambda: hold_all(face, url, name, readies[at], over), LIFE_S)

    with ThreadPoolExecutor(len(crew)) as pool:
        # Given holds on both faces, by both protocols
        found = [pool.submit(run, at) for at in range(len(crew))]
        try:
            assert all(ready.wait(20) for ready in readies)
            # When the server is silent, stalls or refuses, again and again
            for number in range(OUTAGES):
                (proxy.blackhole, proxy.hold, proxy.refuse)[number % 3]()
                time.sleep(OUTAGE_S)
                proxy.heal()
                time.sleep(chance.uniform(*BREAK_S))
        finally:
            over.set()
        assert [wrong for one in found for wrong in one.result()] == []
