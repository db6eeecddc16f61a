"""CPython's tests of ``threading``'s locks, run on holdfast's locks.

Locks and reentrant locks run unchanged, because the result of ``acquire`` is true or false as in
``threading``. Semaphores run through a short adapter. Each class names the tests that are left out,
and the reason.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from holdfast import Client, ConfigError, NotHeld

lock_tests: Any = pytest.importorskip(
    "test.lock_tests", reason="this interpreter comes without CPython's own tests"
)

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def clients(no_disk: Path) -> Any:
    """One client per store for all tests, with a running renewer, since the tests count threads."""
    urls = {OnMemory: "memory://habits", OnSqlite: f"sqlite://{no_disk}/threading-habits.db"}
    for store, url in urls.items():
        store.client = Client(url)
        store.client.lock("first").acquire().release()
    yield
    for store in urls:
        store.client.close()


class OnMemory:
    client: ClassVar[Client]


class OnSqlite:
    client: ClassVar[Client]


def name() -> str:
    return f"habit {next(_numbers)}"


class Locks:
    """Left out are ``repr`` and ``_at_fork_reinit``.

    ``repr`` of holdfast's lock contains its name and store; a locked state would need a round trip.
    ``_at_fork_reinit`` is a part of ``threading`` itself.
    """

    client: ClassVar[Client]
    test_repr = test_locked_repr = test_at_fork_reinit = None

    def locktype(self) -> Any:
        return self.client.lock(name())

    def test_timeout(self) -> None:
        """CPython's test, except that a time-out beyond all limits is a ValueError."""
        lock = self.locktype()
        for too_long in (1e100, threading.TIMEOUT_MAX + 1):
            with pytest.raises(ConfigError):
                lock.acquire(timeout=too_long)
        with pytest.raises(ValueError):
            lock.acquire(False, 1)
        with pytest.raises(ValueError):
            lock.acquire(timeout=-100)
        assert lock.acquire(timeout=threading.TIMEOUT_MAX)
        answers: list[Any] = []
        other = threading.Thread(target=lambda: answers.append(lock.acquire(timeout=0.1)))
        other.start()
        other.join(5)
        assert answers == [None]
        lock.release()
        assert lock.acquire(timeout=5)
        lock.release()


class ReentrantLocks(Locks):
    """Also left out: the private methods of an RLock that ``threading.Condition`` needs."""

    test_release_save_unacquired = test_recursion_count = test__is_owned = None

    def locktype(self) -> Any:
        return self.client.lock(name(), reentrant=True)


class BoundedSemaphore:
    """``threading.BoundedSemaphore`` over holdfast's semaphore.

    ``acquire`` returns True, ``release`` takes a number, and releasing too often is a ValueError. A
    line needs a capacity of at least 1, so there is no semaphore of 0.
    """

    def __init__(self, client: Client, value: int = 1) -> None:
        self._semaphore = client.semaphore(name(), value)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        return bool(self._semaphore.acquire(blocking, timeout))

    def release(self, n: int = 1) -> None:
        try:
            for _ in range(n):
                self._semaphore.release()
        except NotHeld as failure:
            raise ValueError("released too many times") from failure

    __enter__ = acquire

    def __exit__(self, *failure: object) -> None:
        self.release()


class Semaphores:
    """Left out is ``repr``: the number of free permits would need a round trip."""

    client: ClassVar[Client]
    test_repr = None

    def semtype(self, value: int = 1) -> BoundedSemaphore:
        return BoundedSemaphore(self.client, value)


class TestLockOnMemory(OnMemory, Locks, lock_tests.LockTests):
    pass


class TestLockOnSqlite(OnSqlite, Locks, lock_tests.LockTests):
    pass


class TestReentrantLockOnMemory(OnMemory, ReentrantLocks, lock_tests.RLockTests):
    pass


class TestReentrantLockOnSqlite(OnSqlite, ReentrantLocks, lock_tests.RLockTests):
    pass


class TestSemaphoreOnMemory(OnMemory, Semaphores, lock_tests.BoundedSemaphoreTests):
    pass


class TestSemaphoreOnSqlite(OnSqlite, Semaphores, lock_tests.BoundedSemaphoreTests):
    pass
