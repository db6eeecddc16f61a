"""The round trips of each verb: as declared, and no more next to many names or dead waiters."""

from __future__ import annotations

import contextlib
from typing import Any

from ...aio import AsyncClient
from ...errors import StoreUnavailable
from ..faults import Proxy
from . import products
from .bench import TTL_S, Floor
from .products import Tally

#: Each verb is used this many times: a store sends some requests by itself, now and then.
TRIES = 5
NAMES, BATCH, DEAD = 1000, 100, 50
#: A lease that outlasts the run.
LONG_S = 60.0


class Counter(Proxy):
    """A proxy that counts round trips: requests that are sent together are one."""

    trips = 0
    _answered = True

    def chosen(self, message: bytes, *of: str) -> None:
        """Count a request, if it is the first one after an answer."""
        if "request" in of and self._answered:
            self._answered = False
            self.trips += 1

    def passes(self, way: str) -> bool:
        """Note an answer."""
        self._answered |= way == "reply"
        return True


async def each_verb_takes_its_round_trips_however_much_is_there(at: Floor) -> None:
    """Each verb takes the declared round trips, also next to a thousand names, and the verbs of
    one line also with fifty dead waiters in it."""
    bench = at.bench
    with Counter(bench.host, bench.port) as counter:
        async with at.clients(proxy=counter) as (ours, other):
            few = await _spent(at, counter, ours, other)
            holds = await _filled(at, other)
            found = {"a thousand names": await _spent(at, counter, ours, other)}
            for hold in holds:
                await hold.release()
            found["dead waiters"] = await _behind_the_dead(at, counter, ours)
    print(f"round trips: {few}")
    for what, many in found.items():
        more = {verb: (few[verb], trips) for verb, trips in many.items() if trips != few[verb]}
        assert not more, f"round trips with few names, and with {what}: {more}"
    assert not bench.trips or few == bench.trips, f"declared are {bench.trips}, found {few}"


async def _spent(
    at: Floor, counter: Counter, ours: AsyncClient, other: AsyncClient
) -> dict[str, int]:
    """Return the fewest round trips of each verb in several tries."""
    found = []
    for _ in range(TRIES):
        step = Tally(lambda: counter.trips)
        await products.use(at, ours, other, step)
        found.append(step.spent)
    return {verb: min(one[verb] for one in found) for verb in found[0]}


async def _filled(at: Floor, other: AsyncClient) -> list[Any]:
    """Fill the store with a thousand names, jobs and values; return the holds."""
    names = [f"{at.name}:more:{number}" for number in range(NAMES)]
    if other.capabilities.queues:
        await other.queue(f"{at.name}:more").put_many(range(NAMES))
    if other.capabilities.guards:
        # The same guard as that of the verbs
        await other.guard(f"{at.name}:values", ttl=LONG_S).get_many(names, _itself)
    batches = [names[first : first + BATCH] for first in range(0, NAMES, BATCH)]
    locks = [other.all(*(other.lock(name, ttl=LONG_S) for name in batch)) for batch in batches]
    return [await one.acquire(timeout=20) for one in locks]


async def _itself(key: str) -> str:
    return key


async def _behind_the_dead(at: Floor, counter: Counter, ours: AsyncClient) -> dict[str, int]:
    """Return the round trips of the verbs of a line with dead waiters, and of the next acquire."""
    step = Tally(lambda: counter.trips)
    lock = ours.lock(at.name, ttl=TTL_S)
    hold: Any = await lock.acquire(timeout=20)
    with Proxy(at.bench.host, at.bench.port) as proxy:
        async with at.face.client(at.bench.url("127.0.0.1", proxy.port)) as lost:

            async def wait() -> None:
                await lost.lock(at.name, ttl=TTL_S).acquire(timeout=at.bench.gone_s)

            crew = [at.face.start(wait) for _ in range(DEAD)]
            await at.waits(ours, at.name, DEAD)
            proxy.refuse()
            assert await step("try", lambda: ours.lock(at.name).acquire(blocking=False)) is None
            await step("extend", hold.extend)
            await step("inspect", lambda: ours.inspect(at.name, exact=True))
            await step("release", hold.release)
            for one in crew:
                with contextlib.suppress(StoreUnavailable):
                    await one.result(at.bench.gone_s + 20.0)
    await at.face.sleep(at.bench.gone_s)
    hold = await step("acquire", lock.acquire)
    await hold.release()
    return step.spent
