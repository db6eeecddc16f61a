"""On every store, a thread or task that would wait for itself gets an error instead."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import AsyncClient, Client, NotSupported
from tests.shared_stores import STORES, url_of

#: Seconds after which a wait counts as endless.
BOUND_S = 20.0


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, own_name: str) -> str:
    """The URL of a store."""
    return url_of(request.param, request, own_name)


def bounded(work: threading.Thread) -> None:
    """Run a thread to its end, and fail if it waits for itself."""
    work.daemon = True
    work.start()
    work.join(BOUND_S)
    assert not work.is_alive(), "it waits for itself"


def test_a_thread_that_waits_for_itself_is_refused_and_leaves_the_line(
    url: str, own_name: str
) -> None:
    came = []

    def work() -> None:
        with Client(url) as one, Client(url) as other:
            with (
                one.lock(own_name),
                pytest.raises(NotSupported, match=__file__),
                other.lock(own_name),
            ):
                pass
            with other.lock(own_name):
                came.append(True)

    bounded(threading.Thread(target=work))
    assert came


def test_a_task_that_waits_for_itself_is_refused_and_leaves_the_line(
    url: str, own_name: str
) -> None:
    came = []

    async def main() -> None:
        async with AsyncClient(url) as one, AsyncClient(url) as other:
            async with one.lock(own_name):
                with pytest.raises(NotSupported, match=__file__):
                    await other.lock(own_name).acquire()
            async with other.lock(own_name):
                came.append(True)

    bounded(threading.Thread(target=lambda: asyncio.run(main())))
    assert came
