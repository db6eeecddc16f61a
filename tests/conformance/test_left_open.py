"""Locks, deliveries and refresh leases that a program leaves open: they are free in time.

An event loop ends, or a client is forgotten, with a hold, a delivery and a refresh lease. A part
of the client could continue and keep them alive: a driver's thread, a connection, a session. It
must end together with the renewer, and nothing of it may be left.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast import Client
from holdfast.aio import AsyncClient
from holdfast.testing import lag
from holdfast.testing.faces import now
from tests.servers.process import until
from tests.servers.zookeeper import ask
from tests.torture.scale import times

#: On ZooKeeper a session has the same length as the leases of the other stores.
TTL_S, SESSION = 2.0, "?session=2"
#: Maximum seconds that are allowed after a ttl or a session.
MORE_S = 1.0
STORES = ("sqlite", "redis", "postgresql", "mysql", "zookeeper")


#: Acquires a hold, a delivery and a refresh lease; returns what must be kept from the collector.
Main = Callable[[], Coroutine[Any, Any, list[object]]]


def take(client: AsyncClient, name: str) -> Main:
    """Return a function that acquires everything under this name with this client."""

    async def main() -> list[object]:
        queue = client.queue(name, ttl=TTL_S)
        await queue.put("job")
        taken = [client, await client.lock(name, ttl=TTL_S).acquire(), await queue.take()]
        if client.supports("guards"):
            computing = asyncio.Event()

            async def compute() -> None:
                computing.set()
                await asyncio.Event().wait()

            guard = client.guard(name, ttl=60, lease=TTL_S)
            taken.append(asyncio.ensure_future(guard.get(compute)))
            await computing.wait()
        return taken

    return main


def run(main: Main) -> object:
    """Run the loop as most programs do."""
    return asyncio.run(main())


def close(main: Main) -> object:
    loop = asyncio.new_event_loop()
    taken = loop.run_until_complete(main())
    loop.close()
    return taken


def stop(main: Main) -> object:
    loop = asyncio.new_event_loop()
    return loop, loop.run_until_complete(main())


def drop(main: Main) -> object:
    """Keep no reference to the loop or to what was acquired in it."""
    asyncio.new_event_loop().run_until_complete(main())
    return None


def block(main: Main) -> Callable[[], None]:
    """Keep the loop's thread busy with something else; return a function that ends that."""
    taken, judged = threading.Event(), threading.Event()

    async def work() -> None:
        kept = await main()
        taken.set()
        judged.wait()
        del kept

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    assert taken.wait(20)
    return lambda: (judged.set(), thread.join())[0]


def forget(url: str, name: str) -> None:
    """Use a client for threads, and keep no reference to it."""
    client = Client(url)
    queue = client.queue(name, ttl=TTL_S)
    queue.put("job")
    taken = client.lock(name, ttl=TTL_S).acquire(), queue.take()
    del client, queue, taken
    gc.collect()


ENDS: tuple[Callable[[Main], object], ...] = (run, close, stop, drop, block)


def left(url: str) -> tuple[int, int, int]:
    """The threads and descriptors of this process, and the sessions at its ZooKeeper server."""
    gc.collect()
    sessions = 0
    if url.startswith("zookeeper"):
        place = urlsplit(url)
        told = ask(place.hostname or "", place.port or 0, "mntr").splitlines()
        sessions = int(dict(line.split("\t")[:2] for line in told)["zk_global_sessions"])
    return threading.active_count(), len(os.listdir("/proc/self/fd")), sessions


def judge(client: Client, name: str, ended: float) -> float:
    """Check that everything under this name is free in time; return the seconds that it took."""
    asked = now()
    for what in ("lock", "job", "duty"):
        if what == "lock":
            client.lock(name, timeout=10).acquire().release()
        elif what == "job":
            found = client.queue(name).take(timeout=10)
            assert found is not None
            found.ack()
        elif client.supports("guards"):
            client.guard(name, ttl=60, timeout=10).get(lambda: 1)
        freed = now()
        # The delay counts from the end of the lease, or from the first check if that is later.
        late = freed - max(ended + TTL_S, asked) - lag.since(ended)
        assert late < MORE_S, f"{what} of {name} after {freed - ended:.1f} s"
    return freed - ended


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("store", STORES)
def test_what_is_left_open_is_free_in_time(store: str, urls: dict[str, str], own_name: str) -> None:
    lag.watch()
    lasting = urls[store]
    short = lasting.partition("?")[0] + SESSION if store == "zookeeper" else lasting
    # What a process keeps after the first use of a store doesn't count as left open.
    asyncio.run(_use(short, own_name))
    with Client(lasting) as client:
        judge(client, own_name, now())
    before = left(lasting)
    kept: list[object] = []
    try:
        with Client(lasting) as client, ThreadPoolExecutor(64) as judges:
            # Given leases that are left open in each way, then all of them are free in time
            judged = [
                judges.submit(judge, client, name, ended)
                for name, ended in _leave_open(short, own_name, kept)
            ]
        took = [one.result() for one in judged]
    finally:
        _let_go(kept)
    print(f"{store}: {len(took)} left open, free after {max(took):.1f} s at most")
    found = [before]

    def clean() -> bool:
        found.append(left(lasting))
        return all(after <= then for after, then in zip(found[-1], before, strict=True))

    with contextlib.suppress(AssertionError):
        until(clean, "it is clean", 10.0)
    assert clean(), f"{before} grew to {found[-1]}: {threading.enumerate()}"


def _let_go(kept: list[object]) -> None:
    """Drop all references. A client keeps its state for a loop that may run again."""
    for one in kept:
        if callable(one):
            one()
        elif isinstance(one, tuple):
            one[0].close()
    kept.clear()


async def _use(url: str, name: str) -> None:
    async with AsyncClient(url) as client:
        await take(client, name)()


def _leave_open(url: str, own_name: str, kept: list[object]) -> Iterator[tuple[str, float]]:
    """Leave names open, and yield each with the time. Every second loop shares one client."""
    shared = AsyncClient(url)
    for end in ENDS:
        for number in range(times(200, 2) if end is run else times(20, 1)):
            name = f"{own_name}:{end.__name__}:{number}"
            kept.append(end(take(shared if number % 2 else AsyncClient(url), name)))
            yield name, now()
    for number in range(times(20, 1)):
        name = f"{own_name}:forget:{number}"
        forget(url, name)
        yield name, now()
