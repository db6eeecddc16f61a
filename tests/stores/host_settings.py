"""Programs that use a server whose host has chosen its settings, or are refused by it."""

from __future__ import annotations

import asyncio
import re
import traceback

import pytest

from holdfast import AsyncClient, Client, ConfigError, HoldfastError
from holdfast.core.finding import Level
from holdfast.url import find


def use(url: str) -> None:
    """Use each product by both faces; check that values and inspections are right."""
    with Client(url) as client:
        with client.lock("naïve 名", meta="ü\\'") as hold, client.lock("naïve 2"):
            assert client.inspect("naïve 名")[0].holders[0].meta == "ü\\'"
            assert len(client.inspect("naïve")) == 2
            assert hold.extend() > 0
        queue = client.queue("jobs")
        queue.put({"ü\\": "'"})
        queue.put("second")
        assert len(queue.jobs()) == 2
        with queue.take(timeout=10) as job:
            assert job.payload == {"ü\\": "'"}
        with queue.take(timeout=10) as job:
            assert job.payload == "second"
        guard = client.guard("value", ttl=3600)
        assert guard.get_many(["ü", "a"], lambda key: f"\\'{key}") == {"ü": "\\'ü", "a": "\\'a"}

    async def another(key: str) -> str:
        return f"another of {key}"

    async def by_task() -> None:
        async with AsyncClient(url) as client, client.lock("naïve 名"):
            found = await client.guard("value", ttl=3600).get_many(["ü", "a"], another)
            assert found == {"ü": "\\'ü", "a": "\\'a"}
            await client.queue("jobs").put(1)
            async with await client.queue("jobs").take(timeout=10) as job:
                assert job.payload == 1

    asyncio.run(by_task())


def errors(url: str, timeout: float = 1) -> list[Exception]:
    """The errors of both faces, and of doctor unless it reports a failure."""
    told: list[Exception] = []
    with Client(url) as client, pytest.raises(HoldfastError) as wrong:
        client.lock("x").acquire(timeout=timeout)
    told.append(wrong.value)

    async def by_task() -> None:
        async with AsyncClient(url) as client:
            await client.lock("x").acquire(timeout=timeout)

    with pytest.raises(HoldfastError) as wrong:
        asyncio.run(by_task())
    told.append(wrong.value)
    module, parsed = find(url)
    try:
        levels = {one.level for one in module.examine(parsed)}  # type: ignore[attr-defined]
    except HoldfastError as also:
        told.append(also)
    else:
        assert Level.FAIL in levels, levels
    return told


def silent_about(secret: str, told: list[Exception]) -> None:
    """Check that no traceback shows the password."""
    for one in told:
        assert secret not in "".join(traceback.format_exception(one))


def refused(url: str, words: str, secret: str = "sesame") -> None:
    """Check that each error names the setting at once, and shows no secret."""
    told = errors(url, timeout=60)
    for one in told:
        assert isinstance(one, ConfigError), one
        assert re.search(words, str(one)), one
    silent_about(secret, told)
