"""Clients, names and a proxy for the tests of a store that has the fixture ``bench``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.model import LineRecord
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import Proxy
from tests.queue_stores import Place, open_place
from tests.servers.clock import Clock
from tests.stores.dead import Line
from tests.stores.sql.bench import Bench
from tests.stores.stepped import ClockGround

MakeClient = Callable[..., Client]
Look = Callable[[str], LineRecord | None]


@pytest.fixture
def url(bench: Bench) -> str:
    """The URL of the shared server."""
    return str(bench.server.url)


@pytest.fixture
def new_client(url: str) -> Iterator[MakeClient]:
    """Makes clients, of the shared server unless a URL is given, and closes them."""
    with contextlib.ExitStack() as ends:
        yield lambda other="", **options: ends.enter_context(Client(other or url, **options))


@pytest.fixture
def locks(new_client: MakeClient) -> Client:
    """A client of the shared server that has created the tables."""
    client = new_client(label="ours")
    client.inspect("nobody")
    return client


@pytest.fixture
def line(new_client: MakeClient) -> Look:
    """A function that returns the line of a name, or None."""
    other = new_client(label="other")
    return lambda name: next(iter(other.inspect(name, exact=True)), None)


@pytest.fixture
def word(bench: Bench) -> Callable[[str], bytes]:
    """A function that returns bytes in the requests of a verb, and of no other."""
    return bench.word


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    """A proxy between a client and the shared server."""
    with Proxy(bench.server.host, bench.server.port, bench.wire) as one:
        yield one


@pytest.fixture
def durable(bench: Bench, request: pytest.FixtureRequest) -> Place:
    """A server that can be killed and then has lost nothing."""
    return open_place(bench.scheme, request)


@pytest.fixture
def clocked(new_server: Callable[..., Any], server_clock: Clock) -> Iterator[ClockGround]:
    """A server with a separate clock."""
    with server_clock.worn():
        yield ClockGround(new_server().url, server_clock)


@pytest.fixture
def dying(bench: Bench) -> Line:
    """The tables of the shared server."""
    lines, column = f"{bench.tables}lines", bench.first
    claims = f"{bench.tables}claims"
    return Line(bench.server.url, bench.server.ask, claims, (lines, column), bench.steps)


@pytest.fixture
def by_proxy(bench: Bench, proxy: Proxy, locks: Client, new_client: MakeClient) -> Client:
    """A client behind the proxy whose connection has prepared the statements of all verbs."""
    client, name = new_client(bench.proxied(proxy)), f"warm:{proxy.port}"
    hold = client.lock(name).acquire()
    hold.extend()
    hold.release()
    queue = client.queue(name)
    queue.put(1)
    job = queue.take(timeout=10)
    store: Any = client._ctx.store
    run_sync(store.queues.extend([job._lease.extension()], 10.0))
    job.ack()
    guard = client.guard(name, ttl=60)
    guard.get(lambda: 1)
    with pytest.raises(LookupError):
        guard.get(_fail, key="b")
    guard.invalidate()
    return client


def _fail() -> str:
    raise LookupError("no value")
