"""The fixtures and helpers of the tests of the Redis store under asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from tests.stores.redis.conftest import eventually

LIMIT_S = 90.0


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
