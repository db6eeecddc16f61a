"""Unsuitable event loops, or none, are refused immediately, by name and with the remedy."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable

import pytest

from holdfast import AsyncClient, ConfigError
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.surroundings import surroundings

lag.watch()


class Proactor(asyncio.SelectorEventLoop):
    """The default loop of Windows: it reads and writes its own sockets, but watches no others."""

    def add_reader(self, *_: object) -> None:
        raise NotImplementedError

    remove_reader = add_writer = remove_writer = add_reader  # type: ignore[assignment]


async def _lock(client: AsyncClient, name: str) -> None:
    async with client.lock(name, timeout=10):
        pass


async def _look(client: AsyncClient, name: str) -> None:
    await client.inspect(name)


@pytest.mark.parametrize("use", [_lock, _look])
@pytest.mark.parametrize("store", ["postgres", "mariadb"])
def test_a_loop_that_watches_no_sockets_is_refused_at_once_with_the_remedy(
    store: str,
    use: Callable[[AsyncClient, str], Awaitable[None]],
    request: pytest.FixtureRequest,
    own_name: str,
) -> None:
    url = request.getfixturevalue(f"shared_{store}").url

    async def main() -> None:
        async with AsyncClient(url) as client:
            await use(client, own_name)

    begun = boottime()
    with (
        asyncio.Runner(loop_factory=Proactor) as runner,
        pytest.raises(ConfigError, match=r"Proactor.*loop_factory=asyncio\.SelectorEventLoop"),
    ):
        runner.run(main())
    assert boottime() - begun - lag.since(begun) < 5.0


def test_redis_needs_no_such_loop(redis_url: str, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            await _lock(client, own_name)

    with asyncio.Runner(loop_factory=Proactor) as runner:
        runner.run(main())


#: Each use of a client made in code that does not use the event loop itself.
USES = {
    "with": "async with locks.lock('x'): pass",
    "acquire": "await locks.lock('x').acquire()",
    "locked": "await locks.lock('x').locked()",
    "several": "async with locks.all('x', 'y'): pass",
    "look": "await locks.inspect()",
    "break": "await locks.break_('x', 1)",
    "put": "await locks.queue('x').put(b'')",
    "take": "await locks.queue('x').take()",
    "stats": "await locks.queues()",
    "get": "await locks.guard('x', ttl=5).get(lambda: 7)",
    "close": "await locks.close()",
    "client": "async with AsyncClient('memory://'): pass",
}


def test_a_client_under_trio_is_refused_by_name_with_the_remedy() -> None:
    program = """
        import anyio, trio
        from holdfast import AsyncClient, ConfigError
        locks = AsyncClient("memory://")
        def anyio_over_trio(main):
            anyio.run(main, backend="trio")
    """
    for name, use in USES.items():
        program += f"""
        async def main():
            {use}
        for run in trio.run, anyio_over_trio:
            try:
                run(main)
            except ConfigError as wrong:
                assert "trio.to_thread.run_sync" in str(wrong), wrong
                print("{name}")
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env=surroundings(),
    )
    assert done.stdout.split() == [name for name in USES for _ in range(2)], done.stderr


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_coroutine_that_is_driven_without_a_loop_is_refused_by_name(use: str) -> None:
    given = {"AsyncClient": AsyncClient, "locks": AsyncClient("memory://")}
    exec(f"async def main():\n    {use}", given)
    main: Callable[[], Awaitable[None]] = given["main"]  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="event loop of asyncio"):
        main().__await__().send(None)
