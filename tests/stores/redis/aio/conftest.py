"""The fixtures and helpers of the tests of the Redis store under asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.faults import Proxy
from tests.stores.redis.conftest import eventually

LIMIT_S = 90.0
#: Opens a client behind the proxy, connects it, and closes it after the with-block.
Open = Callable[..., AbstractAsyncContextManager[AsyncClient]]


@pytest.fixture(params=["resp3", "resp2"])
def protocol(request: pytest.FixtureRequest) -> str:
    """The version of Redis's protocol."""
    return str(request.param)[-1]


@pytest.fixture
def behind(proxy: Proxy, protocol: str) -> Open:
    """Open clients behind the proxy, with either protocol."""

    @asynccontextmanager
    async def open_(**options: Any) -> AsyncIterator[AsyncClient]:
        url = f"redis://127.0.0.1:{proxy.port}?protocol={protocol}"
        async with AsyncClient(url, **options) as client:
            async with client.lock(f"warm:{proxy.port}"):
                pass
            yield client

    return open_


@pytest.fixture
def nothing_left(other: Client) -> Callable[[str], None]:
    """Assert that soon no claim is left in the lines whose names have this prefix."""

    def look(prefix: str) -> None:
        eventually(lambda: other.inspect(prefix) == [])

    return look


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test to its end, for at most `LIMIT_S` seconds."""

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main()

    asyncio.run(bounded())


def wire_of(client: AsyncClient) -> Any:
    """Return the connection that carries all requests of this client."""
    store: Any = client._ctx.store
    return store._port._wire
