"""Fixtures for tests of the core: two clients of one private store, and a store with faults."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from holdfast import Client
from holdfast.core import claims, waits
from holdfast.core.policy import nap
from tests.core.flaky import Flaky, behind


@pytest.fixture
def space() -> str:
    """The URL of a private memory store for this test."""
    return f"memory://{os.urandom(8).hex()}"


@pytest.fixture
def two(space: str) -> Iterator[tuple[Client, Client]]:
    """Two clients of the private store."""
    with Client(space) as one, Client(space) as other:
        yield one, other


@pytest.fixture
def client(two: tuple[Client, Client]) -> Client:
    """The first client of the private store."""
    return two[0]


@pytest.fixture
def other(two: tuple[Client, Client]) -> Client:
    """The second client of the private store."""
    return two[1]


@pytest.fixture
def store(locks: Client) -> Flaky:
    """The store of ``locks``, with the faults that the test plants."""
    return behind(locks)


@pytest.fixture
def checked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a claim check much earlier whether it waits for itself.

    Otherwise a test would end before that check.
    """
    monkeypatch.setattr(waits, "SOON_S", 0.05)
    monkeypatch.setattr(claims, "nap", lambda retry_in, left: nap(min(retry_in, 0.05), left))
