"""A lock, a job and a value: held by one process, and then acquired by another one."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faces import FACES
from tests.fenced.process import Child

Inside = Callable[[], Awaitable[str]]
Use = Callable[[AsyncClient, Inside, float], Coroutine[Any, Any, None]]
#: The seconds of a lease, more than any test takes.
LONG_S = 600.0


async def lock(client: AsyncClient, inside: Inside, seconds: float) -> None:
    """Call ``inside`` while a lock is held."""
    async with client.lock("x", ttl=LONG_S, timeout=seconds):
        await inside()


async def job(client: AsyncClient, inside: Inside, seconds: float) -> None:
    """Call ``inside`` while a job is delivered."""
    async with client.queue("q", ttl=LONG_S).taking(seconds) as delivery:
        if delivery is None:
            raise TimeoutError("there is no job")
        await inside()


async def value(client: AsyncClient, inside: Inside, seconds: float) -> None:
    """Call ``inside`` to compute a value, unless the value is stored."""
    await client.guard("g", ttl=LONG_S, lease=LONG_S).get(inside, timeout=seconds)


each_product = pytest.mark.parametrize("use", [lock, job, value], ids=lambda use: use.__name__)
each_face = pytest.mark.parametrize("face", FACES.values(), ids=FACES)


@contextmanager
def having(url: str, use: Use, fork: bool = False) -> Iterator[Child]:
    """Run a process that has a lock, a job or a value until its end.

    There is another job in the same group. With ``fork``, the process has a child that outlives it.
    """

    def work(child: Child) -> None:
        async def inside() -> str:
            if not fork or not os.fork():
                child.say(os.getpid())
            signal.pause()
            return "never"

        run_sync(use(FACES["sync"].client(url), inside, 5.0))

    if use is job:
        with Client(url) as client:
            client.queue("q").put_many(["first", "second"], group="g")
    with Child(work) as child:
        pid = int(child.hear())
        try:
            yield child
        finally:
            if fork:
                os.kill(pid, signal.SIGKILL)


def gets(url: str, use: Use, seconds: float) -> None:
    """Get it with a new client, or raise ``TimeoutError``."""

    async def inside() -> str:
        return "value"

    async def main() -> None:
        async with FACES["sync"].client(url) as client:
            await use(client, inside, seconds)

    run_sync(main())


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def never() -> Any:
    """A computation that must not run."""
    raise AssertionError("it is there")


def idle(path: Path) -> list[str]:
    """Return the files of all waiters for jobs and values."""
    return [one.name for one in path.parent.glob(f"{path.name}-*.d/idle/*")]


def jobs_of(client: Client) -> Any:
    """Return the engine of the queues of a client that has used them."""
    return client._ctx.store._port.jobs().engine  # type: ignore[attr-defined]


def values_of(client: Client | AsyncClient) -> Any:
    """Return the engine of a client's refresh guards."""
    return client._ctx.store._port.values().engine  # type: ignore[attr-defined]
