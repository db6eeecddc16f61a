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
from unittest import mock
from urllib.parse import urlsplit

from holdfast import HoldfastError
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Step, aim
from tests.torture.scale import times


async def compute() -> str:
    """The computation of a guard's value."""
    return "value"


async def fail() -> str:
    raise LookupError("there is none")


async def acquired(client: Any) -> None:
    await (await client.lock("x").acquire(timeout=1)).release()


async def tried(client: Any) -> None:
    await (await client.lock("x").acquire(blocking=False)).release()


async def waited(client: Any) -> None:
    await client.lock("taken").acquire(timeout=0.3)


async def several(client: Any) -> None:
    await (await client.all("x", "y").acquire(timeout=1)).release()


async def extended(client: Any) -> None:
    async with client.lock("x", timeout=1) as hold:
        await hold.extend()


async def looked(client: Any) -> None:
    await client.inspect("")


async def worked(client: Any) -> None:
    queue = client.queue("work", ttl=5)
    await queue.put("job", group="g")
    if job := await queue.take(timeout=1):
        await job.ack()


async def mended(client: Any) -> None:
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
    guard = client.guard("kept", ttl=60, lease=5, failure_ttl=0.1)
    with contextlib.suppress(LookupError):
        await guard.get(fail, key="fails", timeout=1)
    await guard.get(compute, key="kept", timeout=1)
    await guard.inspect("kept")
    await guard.invalidate("kept")


async def idled(client: Any) -> None:
    await client.queue("idle").take(timeout=0.3)


async def refreshed(client: Any) -> None:
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
def _limited(what: int, most: int) -> Generator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


@contextlib.contextmanager
def no_descriptors(url: str = "") -> Generator[None]:
    """End all TCP connections over IPv4, and let no new descriptor be opened inside the block."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(number))) as one:
                    if one.family == socket.AF_INET:
                        one.shutdown(socket.SHUT_RDWR)
    with _limited(resource.RLIMIT_NOFILE, 3):  # also of the descriptors that are closed now
        yield


def no_threads(url: str) -> Any:
    """Let no thread be started inside the block."""
    error = RuntimeError("can't start new thread")
    return mock.patch.object(threading.Thread, "start", side_effect=error)


def no_memory(url: str) -> Any:
    """Let this process get no more memory from the system inside the block."""
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    return _limited(resource.RLIMIT_AS, used)


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
LACKS: dict[str, Callable[[str], Any]] = {
    one.__name__.removeprefix("no_"): one
    for one in (no_clients, no_descriptors, no_threads, no_memory, no_room)
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
            first = 1 + len(lack + name + url + face.name) % STRIDE
            for number in range(first, STEPS_MAX + 1, STRIDE):
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


if __name__ == "__main__":
    _, wanted, store, kind = sys.argv
    print(FACES[kind].run(lambda: play(FACES[kind], wanted, store), 280))
