"""Clients, names and a proxy for the tests of the PostgreSQL store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.model import LineRecord
from holdfast.testing.faults import Proxy, Step, aim
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until

MakeClient = Callable[..., Client]


@pytest.fixture
def url(postgres_url: str) -> str:
    """The URL for the tests that several stores share."""
    return postgres_url


@pytest.fixture
def new_client(postgres_url: str) -> Iterator[MakeClient]:
    """Makes clients, of the shared server unless a store is given, and closes them."""
    made: list[Client] = []

    def make(store: Any = None, **options: Any) -> Client:
        made.append(Client(postgres_url if store is None else store, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def locks(new_client: MakeClient) -> Client:
    """A client of the shared server."""
    return new_client(label="ours")


@pytest.fixture
def proxy(shared_postgres: PostgresServer) -> Iterator[Proxy]:
    """A proxy between a client and the shared server."""
    with Proxy(shared_postgres.host, shared_postgres.port) as one:
        yield one


@pytest.fixture
def by_proxy(proxy: Proxy, new_client: MakeClient) -> Client:
    """A client behind the proxy that has already sent every verb."""
    client = new_client(proxied(proxy))
    warm(client, f"warm:{proxy.port}")
    return client


def proxied(proxy: Proxy) -> str:
    """The URL of the server behind this proxy, without TLS: the proxy must read the messages."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable"


def warm(client: Client, name: str) -> None:
    """Let the client's connection prepare the statements of the verbs."""
    hold = client.lock(name).acquire()
    hold.extend()
    hold.release()


@pytest.fixture
def line(new_client: MakeClient) -> Callable[[str], LineRecord | None]:
    """A function that returns the line of a name, or None."""
    other = new_client(label="other")

    def look(name: str) -> LineRecord | None:
        found = other.inspect(name, exact=True)
        return found[0] if found else None

    return look


def asked_when_woken(one: Client, two: Client, name: str) -> int:
    """The number of renewals that the second client sends until it holds.

    The first client holds the name, and then releases it.
    """
    hold = one.lock(name).acquire()
    steps: list[Step] = []

    def work() -> None:
        with two.lock(name, timeout=20):
            pass

    with aim(two, steps.append):
        thread = threading.Thread(target=work)
        thread.start()
        until(lambda: one.inspect(name)[0].waiters, "it waits")
        time.sleep(0.2)
        hold.release()
        thread.join(20)
    return steps.count(Step("keep", "before"))
