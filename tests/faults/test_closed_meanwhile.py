"""A client is closed while its thread makes or returns a connection: no connection stays open."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, HoldfastError
from holdfast.stores.postgres.blocking import port as postgres


def sockets() -> set[str]:
    """The sockets of this process, including those whose connection has ended."""
    ours = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            ours.add(os.readlink(f"/proc/self/fd/{number}"))
    return {one for one in ours if one.startswith("socket:")}


def none_is_left(before: set[str]) -> None:
    """Wait until every socket that was not open before is closed."""
    end = time.monotonic() + 5
    while left := sockets() - before:
        assert time.monotonic() < end, f"{len(left)} sockets are open"
        time.sleep(0.01)


def elsewhere(act: Callable[[], object]) -> None:
    """Do this in another thread, and wait for its end."""

    def acts() -> None:
        with contextlib.suppress(HoldfastError):
            act()

    thread = threading.Thread(target=acts)
    thread.start()
    thread.join(20)


def closes_before(client: Client, made: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls ``made``; before it returns, another thread closes the client."""

    def make(*given: Any) -> Any:
        link = made(*given)
        elsewhere(client.close)
        return link

    return make


class ClosesBefore(deque[Any]):
    """Idle connections; before one is returned, another thread closes the client."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def append(self, link: Any) -> None:
        elsewhere(self._client.close)
        super().append(link)


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_the_connection_that_listens_is_ended_if_it_is_made_during_the_close(
    store: str, request: pytest.FixtureRequest, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    before = sockets()
    client = Client(url)
    client.lock(own_name, auto_renew=False).acquire()
    port: Any = client._ctx.store._port  # type: ignore[attr-defined]
    if store == "redis":
        dial = port._dialler.dial

        def listens(until: float) -> Any:
            opening = bool(port._openings)
            return closes_before(client, dial)(until) if opening else dial(until)

        monkeypatch.setattr(port._dialler, "dial", listens)
    else:
        listen = postgres.Link.listen

        def hears(link: Any, *given: Any) -> None:
            closes_before(client, listen)(link, *given)

        monkeypatch.setattr(postgres.Link, "listen", hears)
    elsewhere(client.lock(own_name).acquire)
    none_is_left(before)


@pytest.mark.parametrize("store", ["postgres", "mariadb"])
def test_a_connection_returned_to_the_pool_during_the_close_is_closed(
    store: str, request: pytest.FixtureRequest, own_name: str
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    before = sockets()
    client = Client(url)
    assert not client.lock(own_name).locked()
    port: Any = client._ctx.store._port  # type: ignore[attr-defined]
    idle = "_pool" if store == "postgres" else "_idle"
    for link in getattr(port, idle):
        port._drop(link)
    setattr(port, idle, ClosesBefore(client))
    with contextlib.suppress(HoldfastError):
        client.lock(own_name).locked()
    none_is_left(before)


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_a_close_ends_the_listener_although_no_thread_reads_it(
    store: str, request: pytest.FixtureRequest, own_name: str
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    before = sockets()
    with Client(url) as client, Client(url) as other:
        hold = other.lock(own_name).acquire()
        elsewhere(lambda: client.lock(own_name).acquire(timeout=0.3))
        hold.release()
    none_is_left(before)
    assert client.url
