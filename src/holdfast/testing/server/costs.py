"""The requests of each verb: as declared, and no more next to many names or dead waiters."""

from __future__ import annotations

import contextlib
from typing import Any

from ...aio import AsyncClient
from ...errors import StoreUnavailable
from ..faults import Proxy
from . import products
from .bench import TTL_S, Bench, Floor
from .products import Tally

#: Each verb is used this many times: a store sends some requests by itself, now and then.
TRIES = 3
NAMES, BATCH, DEAD = 1000, 100, 50
#: A lease that outlasts the run.
LONG_S = 60.0
#: The requests of each use of a verb.
Spent = dict[str, list[int]]


class Counter(Proxy):
    """A proxy that counts requests."""

    def __init__(self, bench: Bench) -> None:
        self.seen: list[bytes] = []
        super().__init__(bench.host, bench.port, bench.wire)

    def chosen(self, message: bytes, *of: str) -> None:
        """Count a request."""
        if "request" in of:
            self.seen.append(message)

    def requests(self) -> int:
        """Return the number of requests so far."""
        return len(self.seen)


async def each_verb_sends_its_requests_however_much_is_there(at: Floor) -> None:
    """Each verb sends the declared number of requests, also next to a thousand names, and the verbs
    of one line also with fifty dead waiters in it."""
    with Counter(at.bench) as counter:
        async with at.clients(proxy=counter) as (ours, other):
            few = await _spent(at, counter, ours, other)
            holds = await _filled(at, other)
            many = await _spent(at, counter, ours, other)
            for hold in holds:
                await hold.release()
            alone, behind = await _behind_the_dead(at, counter, ours)
    print(f"requests: {few}")
    _compare("with a thousand names", few, many)
    _compare(
        "with dead waiters", alone, {v: n for v, n in behind.items() if v not in at.bench.grows}
    )
    for verb, declared in at.bench.requests.items():
        assert min(few[verb]) <= declared <= max(few[verb]), f"{verb}: {declared} isn't true: {few}"


def _compare(what: str, few: Spent, many: Spent) -> None:
    more = {verb: sent for verb, sent in many.items() if min(sent) > max(few[verb])}
    assert not more, f"more requests {what}: {more}, instead of {few}"


async def _spent(at: Floor, counter: Counter, ours: AsyncClient, other: AsyncClient) -> Spent:
    """Return the requests of each verb in several tries."""
    step = Tally(counter.requests)
    for _ in range(TRIES):
        await products.use(at, ours, other, step)
    return step.spent


async def _filled(at: Floor, other: AsyncClient) -> list[Any]:
    """Fill the store with a thousand names and jobs, and a hundred values; return the holds."""
    names = [f"{at.name}:more:{number}" for number in range(NAMES)]
    if other.capabilities.queues:
        await other.queue(f"{at.name}:more").put_many(range(NAMES))
    if other.capabilities.guards:
        # The same guard as that of the verbs; fewer, because each is computed by three requests
        await other.guard(f"{at.name}:values", ttl=LONG_S).get_many(names[:BATCH], _itself)
    batches = [names[first : first + BATCH] for first in range(0, NAMES, BATCH)]
    locks = [other.all(*(other.lock(name, ttl=LONG_S) for name in batch)) for batch in batches]
    return [await one.acquire(timeout=20) for one in locks]


async def _itself(key: str) -> str:
    return key


async def _behind_the_dead(at: Floor, counter: Counter, ours: AsyncClient) -> tuple[Spent, Spent]:
    """Return the requests of the verbs of a line without and with dead waiters in it."""
    alone, behind = Tally(counter.requests), Tally(counter.requests)
    count = TRIES if ours.capabilities.semaphore else 1

    def line(client: AsyncClient) -> Any:
        name = f"{at.name}:dead"
        return (
            client.semaphore(name, count, ttl=TTL_S) if count > 1 else client.lock(name, ttl=TTL_S)
        )

    async def use(holds: list[Any], step: Tally) -> None:
        for hold in holds:
            assert await step("try", lambda: line(ours).acquire(blocking=False)) is None
            await step("extend", hold.extend)
            await step("inspect", lambda: ours.inspect(f"{at.name}:dead", exact=True))
        for hold in holds:
            await step("release", hold.release)

    await use([await alone("acquire", line(ours).acquire) for _ in range(count)], alone)
    holds = [await line(ours).acquire() for _ in range(count)]
    with Proxy(at.bench.host, at.bench.port) as proxy:
        async with at.face.client(at.bench.url("127.0.0.1", proxy.port)) as lost:

            async def wait() -> None:
                with contextlib.suppress(StoreUnavailable):
                    await line(lost).acquire(timeout=at.bench.gone_s)

            crew = [at.face.start(wait) for _ in range(DEAD)]
            await at.waits(ours, f"{at.name}:dead", DEAD)
            proxy.refuse()
            await use(holds, behind)
            for one in crew:
                await one.result(at.bench.gone_s + 20.0)
    await at.face.sleep(at.bench.gone_s)
    for hold in [await behind("acquire", line(ours).acquire) for _ in range(count)]:
        await hold.release()
    return alone.spent, behind.spent
