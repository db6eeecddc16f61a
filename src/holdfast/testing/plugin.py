"""Fixtures for tests of code that uses holdfast; pytest finds them by itself.

===============  ==========================================================================
``locks``        a ``Client`` on a fresh memory store; a hold left unreleased fails the test
``async_locks``  an ``AsyncClient`` on the same store; an unreleased hold fails the test
``lock_clock``   the clock of both clients: ``advance(seconds)``, ``jump(seconds)``
``lose``         ``lose(hold, reason="broken")`` ends a hold of the code under test
``contend``      ``contend("name")`` makes another client hold that name, or wait for it
===============  ==========================================================================

Nothing is imported before a test asks for a fixture; other tests are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..aio import AsyncClient
    from ..core.lock import LockBase
    from ..core.model import Loss
    from ..sync import Client
    from .clock import TestClock
    from .rivals import Rival


@pytest.fixture
def lock_clock() -> Iterator[TestClock]:
    """The clock of ``locks`` and ``async_locks``; ``advance(60)`` lets a minute pass for them."""
    from .clock import TestClock

    clock = TestClock()
    yield clock
    leaked = clock.leaked()
    clock.close()
    if leaked:
        more = f" and {len(leaked) - 10} more" if len(leaked) > 10 else ""
        names = ", ".join(leaked[:10]) + more
        pytest.fail(f"the test has ended, but still holds {names}", pytrace=False)


@pytest.fixture
def locks(lock_clock: TestClock) -> Client:
    """A client on a fresh memory store. The test fails if it leaves a hold unreleased."""
    return lock_clock.client()


@pytest.fixture
def async_locks(lock_clock: TestClock) -> AsyncClient:
    """A client for asyncio on the store of ``locks``. The test fails if it leaves a hold
    unreleased."""
    return lock_clock.async_client()


@pytest.fixture
def lose() -> Callable[..., None]:
    """``lose(hold, reason="broken")``: the hold is lost, and its holder is notified as usual."""

    def act(hold: Any, reason: Loss | str = "broken") -> None:
        from .rivals import lose as take_away

        take_away(hold, reason)

    return act


@pytest.fixture
def contend(lock_clock: TestClock) -> Iterator[Callable[..., Rival]]:
    """``contend("name")`` or ``contend(lock)``: another client holds the name, or waits."""
    from .rivals import contend as stand_in_line

    rivals: list[Rival] = []

    def act(wanted: str | LockBase, seconds: float = 86_400.0) -> Rival:
        rivals.append(stand_in_line(lock_clock, wanted, seconds))
        return rivals[-1]

    yield act
    for rival in rivals:
        rival.leave()
