"""Resources that a long-lived process keeps: ``python -m tests.torture.memory URL [--aio] [--holds
N]``.

One process takes holds with callbacks, holds with a different ttl each, and clients that are
abandoned while they hold. It prints its use before and after as JSON: objects of Python's
allocator, resident KiB, threads and descriptors. It waits at most 10 s until the end is like the
beginning, and prints how long that took.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from uuid import uuid4

from holdfast import AsyncClient, Client
from holdfast.runtime.blocking import run_sync

#: Seconds in which everything must be released.
BACK_S = 10.0
#: Allowed rest: a fraction of the first number of objects, KiB, threads and descriptors. The heap
#: doesn't shrink below its peak, so the KiB can't fall to the first value.
OBJECTS, KIB, THREADS, FDS = 0.02, 8192, 0, 1
#: Number of abandoned clients. The warm-up abandons them too, because the C heap keeps its peak
#: size.
CLIENTS = 60
#: Seconds of the lease that an abandoned client leaves in the store.
LEFT_S = 5.0


class Now:
    """The resources that the process uses at this moment."""

    def __init__(self) -> None:
        gc.collect()
        self.objects = sys.getallocatedblocks()
        self.kib = int(Path("/proc/self/statm").read_text().split()[1]) * 4
        self.threads = threading.active_count()
        self.fds = len(os.listdir("/proc/self/fd"))

    def back(self, start: Now) -> bool:
        """Return True if the use is as at the start, except for the allowed rest."""
        return (
            self.objects <= start.objects * (1 + OBJECTS)
            and self.kib <= start.kib + KIB
            and self.threads <= start.threads + THREADS
            and self.fds <= start.fds + FDS
        )


def lost(*_: object) -> None:
    """The callback of every hold."""


def ttls(number: int) -> float:
    """Return a different ttl for each number, all of them long."""
    return 600.0 + number * 0.001


class Threads:
    """The load with threads: nothing in it suspends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = Client(url)

    async def play(self, holds: int) -> None:
        """Acquire and release, and abandon clients that hold."""
        for number in range(holds):
            watched = lambda *what, number=number: lost(number, *what)  # noqa: E731
            options = {"auto_renew": False, "on_lost": watched}
            self.client.lock(f"a-{number % 64}", ttl=600.0, **options).acquire().release()
            self.client.lock(f"b-{number % 64}", ttl=ttls(number)).acquire().release()
        for _ in range(CLIENTS):
            forgotten = Client(self.url).lock(f"c-{uuid4()}", ttl=LEFT_S).acquire()
            del forgotten

    async def nap(self) -> None:
        """Wait a little."""
        time.sleep(0.1)


class Tasks:
    """The same load on an event loop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = AsyncClient(url)

    async def play(self, holds: int) -> None:
        """Acquire and release, and abandon clients that hold."""
        for number in range(holds):
            watched = lambda *what, number=number: lost(number, *what)  # noqa: E731
            options = {"auto_renew": False, "on_lost": watched}
            lock = self.client.lock(f"a-{number % 64}", ttl=600.0, **options)
            await (await lock.acquire()).release()
            other = self.client.lock(f"b-{number % 64}", ttl=ttls(number))
            await (await other.acquire()).release()
            await asyncio.sleep(0)  # a store that never blocks would let nothing else run
        for _ in range(CLIENTS):
            forgotten = await AsyncClient(self.url).lock(f"c-{uuid4()}", ttl=LEFT_S).acquire()
            del forgotten

    async def nap(self) -> None:
        """Wait a little."""
        await asyncio.sleep(0.1)


async def measured(load: Threads | Tasks, holds: int, within: float) -> dict[str, object]:
    """Return the use before and after a load, and the seconds until the second was as the first.

    The client of the load stays open, so what it keeps counts.
    """
    first = Now()
    await load.play(max(100, holds // 20))  # what is made once is there
    end = time.monotonic() + within
    while (start := Now()).threads > first.threads and time.monotonic() < end:
        await load.nap()
    begun = time.monotonic()
    await load.play(holds)
    ended = time.monotonic()
    while not (now := Now()).back(start) and time.monotonic() < ended + within:
        await load.nap()
    return {
        "holds": holds,
        "seconds": round(ended - begun, 1),
        "back": now.back(start),
        "back_after_s": round(time.monotonic() - ended, 1),
        "before": vars(start),
        "after": vars(now),
    }


async def _in_loop(args: argparse.Namespace) -> dict[str, object]:
    return await measured(Tasks(args.url), args.holds, args.within)


def main() -> int:
    """Return 0 if everything was released, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.memory")
    parser.add_argument("url")
    parser.add_argument("--aio", action="store_true", help="with asyncio")
    parser.add_argument("--holds", type=int, default=100_000, help="of each kind (100000)")
    parser.add_argument("--within", type=float, default=BACK_S, help="seconds to be back (10)")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ResourceWarning)  # of the abandoned ones, as it should be
    found = (
        asyncio.run(_in_loop(args))
        if args.aio
        else run_sync(measured(Threads(args.url), args.holds, args.within))
    )
    print(json.dumps(found))
    return 0 if found["back"] else 1


if __name__ == "__main__":
    sys.exit(main())
