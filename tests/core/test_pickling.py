"""A client pickles as its URL, so that a pool of processes can be given one; a hold does not."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": f"memory://{tmp_path.name}", "sqlite": f"sqlite://{tmp_path}/locks.db"}[
        request.param
    ]


def twin_of(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def test_a_client_works_where_it_is_unpickled(url: str) -> None:
    with Client(url, ttl=7, label="me") as client, twin_of(client) as twin:
        assert (twin.url, twin.owner) == (client.url, client.owner)
        with client.lock("x") as hold:
            assert hold.ttl == 7
            assert twin.lock("x").acquire(blocking=False) is None
        with twin.lock("x") as again:
            assert again.ttl == 7


def test_a_client_for_asyncio_works_where_it_is_unpickled(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url, label="me") as client, twin_of(client) as twin:
            assert (twin.url, twin.owner) == (client.url, client.owner)
            async with client.lock("x"):
                assert await twin.lock("x").acquire(blocking=False) is None

    asyncio.run(main())


@pytest.mark.parametrize("primitive", ["lock", "rwlock", "semaphore", "election"])
def test_a_hold_refuses_and_says_what_to_do(url: str, primitive: str) -> None:
    with Client(url) as client:
        lock: Any = client.semaphore("x", 2) if primitive == "semaphore" else None
        lock = lock or getattr(client, primitive)("x")
        with getattr(lock, "write", lock) as hold:
            with pytest.raises(TypeError, match=r"'x'.*detach\(\).*adopt\(token\)"):
                pickle.dumps(hold)
            hold.check()
