"""Fixtures for all tests of the embedded store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.stores.sqlite.blocking import entry, way
from holdfast.testing import lag
from tests.stores.sqlite.desk import Clock, Desk

# Tests of milliseconds subtract the pauses of the machine.
lag.watch()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that doesn't exist yet, in a private folder."""
    return tmp_path / "locks.db"


@pytest.fixture
def url(path: Path) -> str:
    """The URL of this database."""
    return f"sqlite://{path}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A client of this database."""
    with Client(url) as made:
        yield made


@pytest.fixture
def other(url: str) -> Iterator[Client]:
    """Another client of this database."""
    with Client(url) as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The store's clock in this process."""
    made = Clock()
    for module in (entry, way):
        monkeypatch.setattr(module, "boottime", lambda: made.now)
    return made


@pytest.fixture
def desk(path: Path) -> Iterator[Callable[..., Desk]]:
    """Return a function that makes clients of this database; close these clients after the test."""
    made: list[Desk] = []

    def make(options: str = "", where: Path | None = None) -> Desk:
        made.append(Desk(where or path, options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def here(desk: Callable[..., Desk]) -> Desk:
    """A client without the core above it."""
    return desk()


@pytest.fixture
def there(desk: Callable[..., Desk]) -> Desk:
    """Another one."""
    return desk()
