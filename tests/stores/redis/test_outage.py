"""An outage of two fifths of the lease costs no hold, whatever its kind and its moment."""

from __future__ import annotations

import threading
import time
from typing import Any

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faces import FACES
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


class Holder:
    """A client that holds locks, in a separate thread, until `end` is called."""

    def __init__(self, face: str, url: str, name: str) -> None:
        self.ready, self.over = threading.Event(), threading.Event()
        #: The lost holds, each with the lag of the machine during its last lease.
        self.lost: list[tuple[str, float]] = []
        self.released: list[bool] = []
        self.wrong: list[BaseException] = []
        self._face = FACES[face]
        self._url, self._name = url, name
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self.ready.wait(20)

    def _run(self) -> None:
        try:
            self._face.run(self._main, LIFE_S)
        except BaseException as failure:
            self.wrong.append(failure)
        finally:
            self.ready.set()

    async def _main(self) -> None:
        def lost(hold: Any, reason: object) -> None:
            self.lost.append((f"{hold.name}: {reason}", lag.since(boottime() - TTL_S)))

        async with self._face.client(self._url) as client:
            locks = [client.lock(f"{self._name}:{at}", ttl=TTL_S) for at in range(HOLDS)]
            holds = [await lock.acquire() for lock in locks]
            for hold in holds:
                hold.on_lost(lost)
            self.ready.set()
            await self._face.outside(self.over.wait)
            self.released = [await hold.release() for hold in holds if hold.lost is None]

    def end(self) -> None:
        """Release the holds, and wait for the thread."""
        self.over.set()
        self._thread.join()


def test_an_outage_of_two_fifths_of_the_lease_costs_no_hold(proxy: Proxy, own_name: str) -> None:
    chance = dice("outages")
    url = f"redis://127.0.0.1:{proxy.port}?protocol="
    # Given holds on both faces, by both protocols
    crew = [
        Holder(face, f"{url}{protocol}", f"{own_name}:{face}:{protocol}")
        for face in FACES
        for protocol in (2, 3)
    ]
    # When the server is silent, stalls or refuses, again and again
    for number in range(OUTAGES):
        (proxy.blackhole, proxy.hold, proxy.refuse)[number % 3]()
        time.sleep(OUTAGE_S)
        proxy.heal()
        time.sleep(chance.uniform(*BREAK_S))
    for one in crew:
        one.end()
    # Then no hold is lost
    lost = [entry for one in crew for entry in one.lost]
    print(f"{OUTAGES} outages of {OUTAGE_S:g} s, {len(crew) * HOLDS} holds: {len(lost)} lost")
    print(f"the machine was late by {[f'{late:.2f} s' for _, late in lost]} of {TTL_S} s then")
    assert [one.wrong for one in crew] == [[]] * len(crew)
    assert [what for what, late in lost if late < LATE_S] == []
    assert all(all(one.released) for one in crew)
