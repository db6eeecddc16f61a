"""What the tests of the Redis store under asyncio begin with."""

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
#: Opens a client behind the proxy that has connected already, and closes it.
Open = Callable[..., AbstractAsyncContextManager[AsyncClient]]


@pytest.fixture(params=["resp3", "resp2"])
def protocol(request: pytest.FixtureRequest) -> str:
    """The version of Redis's protocol."""
    return str(request.param)[-1]


@pytest.fixture
def behind(proxy: Proxy, protocol: str) -> Open:
    """Opens clients behind the proxy, in both protocols."""

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
    """Asserts that soon no claim is left in the lines whose names begin so."""

    def look(prefix: str) -> None:
        eventually(lambda: other.inspect(prefix) == [])

    return look


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test to its end, within limits."""

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main()

    asyncio.run(bounded())


def wire_of(client: AsyncClient) -> Any:
    """The connection that all of this client's requests go by."""
    store: Any = client._ctx.store
    return store._port._wire
