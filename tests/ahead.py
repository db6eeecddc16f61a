"""What tests wait for, begun before they ask: most of it sleeps, so that several go on at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Self, TypeVar

import pytest

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class Ahead(Generic[K, R]):
    """Pieces of work, each with a key; those that nobody has begun when it ends are left out.

    A context: ``with Ahead(work, keys, at_once=8) as ahead: ahead[key]``, which waits for the end
    of ``work(key)``, gives what it gave, and raises what it raised. They are begun in this order.
    """

    def __init__(self, work: Callable[[K], R], keys: Iterable[K], at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once, "ahead")
        self._begun: dict[K, Future[R]] = {key: self._pool.submit(work, key) for key in keys}

    def __getitem__(self, key: K) -> R:
        return self._begun[key].result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def asked(request: pytest.FixtureRequest, test: str, *names: str) -> list[Any]:
    """With what this test function of the module will be called, of those that were chosen.

    A tuple of these parameters for each call, or the value itself if it is one.
    """
    module = request.node.getparent(pytest.Module)
    found = []
    for item in request.session.items:
        if item.getparent(pytest.Module) is module and getattr(item, "originalname", "") == test:
            values = [item.callspec.params[name] for name in names]  # type: ignore[attr-defined]
            found.append(values[0] if len(values) == 1 else tuple(values))
    return found
