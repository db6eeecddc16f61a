"""On every store, a thread or task that would wait for itself gets an error instead."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import AsyncClient, Client, NotSupported
from tests.shared_stores import STORES, url_of

#: Seconds after which a wait counts as endless.
BOUND_S = 20.0


def in_a_thread(url: str, name: str, came: list[bool]) -> None:
    with Client(url) as one, Client(url) as other:
        with one.lock(name), pytest.raises(NotSupported, match=__file__), other.lock(name):
            pass
        with other.lock(name):
            came.append(True)


def in_a_task(url: str, name: str, came: list[bool]) -> None:
    async def main() -> None:
        async with AsyncClient(url) as one, AsyncClient(url) as other:
            async with one.lock(name):
                with pytest.raises(NotSupported, match=__file__):
                    await other.lock(name).acquire()
            async with other.lock(name):
                came.append(True)

    asyncio.run(main())


@pytest.mark.parametrize("where", [in_a_thread, in_a_task])
@pytest.mark.parametrize("store", STORES)
def test_who_would_wait_for_itself_is_refused_and_leaves_the_line(
    store: str, where: object, request: pytest.FixtureRequest, own_name: str
) -> None:
    came: list[bool] = []
    given = url_of(store, request, own_name), own_name, came
    thread = threading.Thread(target=where, args=given, daemon=True)  # type: ignore[arg-type]
    thread.start()
    thread.join(BOUND_S)
    assert not thread.is_alive(), "it waits for itself"
    assert came
