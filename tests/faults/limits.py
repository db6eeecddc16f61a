"""Take one resource away at each step of each verb; afterwards the client must work as before.

``test_limits`` runs this module with the name of the resource, the URL of a store and a face. The
module prints the number of steps at which the resource was missing. A new store needs only its URL.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import HoldfastError
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Step, aim
from tests.torture.scale import times


async def compute() -> str:
    """The computation of a guard's value."""
    return "value"


async def fail() -> str:
    """A computation that fails."""
    raise LookupError("there is none")


async def acquired(client: Any) -> None:
    """Wait for a lock, and release it."""
    await (await client.lock("x").acquire(timeout=1)).release()


async def tried(client: Any) -> None:
    """Try to get a lock without waiting, and release it."""
    await (await client.lock("x").acquire(blocking=False)).release()


async def waited(client: Any) -> None:
    """Wait for a lock that another client holds."""
    await client.lock("taken").acquire(timeout=0.3)


async def several(client: Any) -> None:
    """Hold two names."""
    await (await client.all("x", "y").acquire(timeout=1)).release()


async def extended(client: Any) -> None:
    """Hold a lock and renew it by hand."""
    async with client.lock("x", timeout=1) as hold:
        await hold.extend()


async def looked(client: Any) -> None:
    """Inspect all lines."""
    await client.inspect("")


async def worked(client: Any) -> None:
    """Put a job, take it, and ack it."""
    queue = client.queue("work", ttl=5)
    await queue.put("job", group="g")
    if job := await queue.take(timeout=1):
        await job.ack()


async def mended(client: Any) -> None:
    """Let a job fail twice, make it a dead letter, retry the dead letters, and purge the queue."""
    queue = client.queue("mended", ttl=5)
    await queue.put("job", group="g", id="known")
    for _ in range(2):
        if job := await queue.take(timeout=1):
            await job.retry(0.0)
    if job := await queue.take(timeout=1):
        await job.dead_letter("no use")
    await queue.stats()
    await queue.retry_dead()
    await queue.purge()


async def kept(client: Any) -> None:
    """Store a value, let a computation fail, inspect the value, and invalidate it."""
    guard = client.guard("kept", ttl=60, lease=5, failure_ttl=0.1)
    with contextlib.suppress(LookupError):
        await guard.get(fail, key="fails", timeout=1)
    await guard.get(compute, key="kept", timeout=1)
    await guard.inspect("kept")
    await guard.invalidate("kept")


async def idled(client: Any) -> None:
    """Wait for a job in an empty queue."""
    await client.queue("idle").take(timeout=0.3)


async def refreshed(client: Any) -> None:
    """Invalidate a value, and let it be computed."""
    guard = client.guard("value", ttl=60, lease=5)
    await guard.invalidate()
    await guard.get(compute, timeout=1)


#: The actions in which a resource runs out. They use each verb of the contracts at least once.
WORKS: dict[str, Callable[[Any], Awaitable[None]]] = {
    "acquire": acquired, "try": tried, "wait": waited, "all": several, "extend": extended,
    "inspect": looked, "queue": worked, "mend": mended, "idle": idled,
    "guard": refreshed, "keep": kept,
}  # fmt: skip
#: Capabilities that a work needs.
NEEDS = {
    "queue": "queues", "mend": "queues", "idle": "queues", "guard": "guards", "keep": "guards",
}  # fmt: skip
#: Maximum number of steps tried in one work. A usual run tries every eighth of these steps.
STEPS_MAX = 24
STRIDE = times(1, 8)
#: Seconds for which the resource is missing.
LACK_S = 0.15


@contextlib.contextmanager
def no_descriptors(url: str = "") -> Generator[None]:
    """End all TCP connections over IPv4, and let no new descriptor be opened inside the block."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(number))) as one:
                    if one.family == socket.AF_INET:
                        one.shutdown(socket.SHUT_RDWR)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # also of those that are closed now
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def no_threads(url: str) -> Generator[None]:
    """Let no thread be started inside the block."""
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threading.Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextlib.contextmanager
def no_memory(url: str) -> Generator[None]:
    """Let this process get no more memory from the system inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def no_clients(url: str) -> Generator[None]:
    """End the connections of a Redis, and let it accept no client inside the block."""
    place = urlsplit(url)
    address = (place.hostname or "", place.port or 0)
    with contextlib.ExitStack() as taken:
        first = taken.enter_context(socket.create_connection(address, 5))
        first.sendall(b"CLIENT KILL TYPE normal SKIPME yes\r\n")
        first.recv(100)
        for _ in range(CLIENTS + 10):
            taken.enter_context(socket.create_connection(address, 5))
        yield


@contextlib.contextmanager
def no_room(url: str) -> Generator[None]:
    """Keep the disk of the store's file full inside the block."""
    ballast = Path(urlsplit(url).path).with_name("ballast")
    with open(ballast, "wb", buffering=0) as file:
        for piece in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(piece))
    try:
        yield
    finally:
        ballast.unlink()


#: Maximum number of clients that a server for ``no_clients`` accepts.
CLIENTS = 40
LACKS = {
    "clients": no_clients,
    "descriptors": no_descriptors,
    "threads": no_threads,
    "memory": no_memory,
    "room": no_room,
}
#: Errors that are allowed while a resource is missing: those of holdfast, and those of the system
#: about threads and memory.
SAID = (HoldfastError, RuntimeError, MemoryError)


async def struck(
    client: Any, lack: str, url: str, work: Callable[[Any], Awaitable[None]], number: int
) -> bool:
    """Do the work, and remove the resource at step ``number``; False if there is no such step."""
    seen = 0
    with contextlib.ExitStack() as stack:

        def at(step: Step) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                timer.start()
                stack.enter_context(LACKS[lack](url))

        timer = threading.Timer(LACK_S, stack.close)
        timer.daemon = True
        with aim(client, at), contextlib.suppress(*SAID):
            await work(client)
    return seen >= number


async def works_as_before(client: Any) -> None:
    """Check that locks, queues and guards work, and that no lock or job was left behind."""
    async with client.all("x", "y", timeout=20), client.lock("z", timeout=10) as hold:
        hold.check()
    if client.capabilities.queues:
        queue = client.queue("work", ttl=5)
        await queue.put("last")
        while (job := await queue.take(timeout=10)) is not None:
            assert await job.ack() is True
            if job.payload == "last":
                break
        assert job is not None, "a job that was accepted is not delivered"
        assert (await queue.stats()).taken == 0
    if client.capabilities.guards:
        guard = client.guard("value", ttl=60, lease=5)
        await guard.invalidate()
        assert await guard.get(compute, timeout=10) == "value"


async def play(face: Face, lack: str, url: str) -> int:
    """Return the number of steps at which the resource was missing."""
    count = 0
    other = face.client(url)
    # One client does all the work, so that the effects of each failure add up.
    client = face.client(url)
    async with other.lock("taken", ttl=60):
        for name, work in WORKS.items():
            if name in NEEDS and not getattr(other.capabilities, NEEDS[name]):
                continue
            for number in range(
                1 + len(lack + name + url + face.name) % STRIDE, STEPS_MAX + 1, STRIDE
            ):
                async with client.lock("warm", timeout=5):
                    pass
                if not await struck(client, lack, url, work, number):
                    break
                count += 1
                print(name, number, file=sys.stderr, flush=True)
                await works_as_before(client)
    await client.close()
    await other.close()
    return count


def main(lack: str, url: str, face: str) -> int:
    """Return the number of steps at which the resource was missing."""
    one = FACES[face]
    return one.run(lambda: play(one, lack, url), 280)


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
