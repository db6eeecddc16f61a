"""Slow work that tests need, started before the tests ask for it.

Most of this work sleeps, so several pieces run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Self, TypeVar

import pytest

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class Ahead(Generic[K, R]):
    """Pieces of work, each with a key, that start before their results are needed.

    Use it as a context: ``with Ahead(work, keys, at_once=8) as ahead: ahead[key]``. The lookup
    waits until ``work(key)`` ends, returns its result, or raises its exception. The pieces begin in
    the order of ``keys``. Pieces that have not begun when the context ends are left out.
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
    """Return the parameters of all chosen calls of this test function of the module.

    Each call gives a tuple of the parameters in ``names``, or the value itself if there is only
    one.
    """
    module = request.node.getparent(pytest.Module)
    found = []
    for item in request.session.items:
        if item.getparent(pytest.Module) is module and getattr(item, "originalname", "") == test:
            values = [item.callspec.params[name] for name in names]  # type: ignore[attr-defined]
            found.append(values[0] if len(values) == 1 else tuple(values))
    return found
