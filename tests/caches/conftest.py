"""Clients and caches for the tests of guards with an external cache."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import Client, Guard

Made = Callable[..., Guard]


class Shelf:
    """A user's cache that records its calls, and runs a hook before each call."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.asked: list[str] = []
        #: Called with the verb and the key, before the call is carried out.
        self.before: Callable[[str, str], object] = lambda verb, key: None

    def _ask(self, verb: str, key: str) -> None:
        self.asked.append(verb)
        self.before(verb, key)

    def get(self, key: str) -> Any:
        self._ask("get", key)
        return self.values.get(key)

    def set(self, key: str, data: bytes, seconds: int) -> None:
        assert type(data) is bytes
        assert type(seconds) is int
        self._ask("set", key)
        self.values[key] = data

    def delete(self, key: str) -> None:
        self._ask("delete", key)
        self.values.pop(key, None)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def made(own_name: str, shelf: Shelf) -> Iterator[Made]:
    """Make guards with this test's name, each of another client, with one external cache."""
    with contextlib.ExitStack() as ends:

        def make(cache: object = shelf, store: str = f"memory://{own_name}", **options: Any) -> Any:
            client = ends.enter_context(Client(store))
            return client.guard(own_name, cache=cache, **{"ttl": 60, "timeout": 10, **options})

        yield make
