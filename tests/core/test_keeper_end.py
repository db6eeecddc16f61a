"""The renewer ends when it has no lease to renew, and overlooks none while it ends."""

from __future__ import annotations

import ctypes
import math
import random
import threading
import time

import pytest

from holdfast import Client
from holdfast.core import keeper
from tests.servers.process import until

#: A lease of this length survives a pause of the machine of two seconds.
TTL_S = 3.2


def keepers() -> int:
    """Return the number of renewer threads."""
    return sum(thread.name == "holdfast-keeper" for thread in threading.enumerate())


def test_holds_acquired_while_the_renewer_ends_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a renewer that ends as soon as it has nothing to do
    monkeypatch.setattr(keeper, "LINGER_S", 0.0)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    losses: list[str] = []

    def work(number: int) -> None:
        chance = random.Random(seed + number)
        lock = client.lock(f"n{number}", ttl=TTL_S)
        end = time.monotonic() + 6
        while time.monotonic() < end:
            hold = lock.acquire()
            if chance.random() < 0.1:
                before = hold._lease.deadline
                while hold._lease.deadline == before and hold.lost is None:
                    time.sleep(0.01)
            if not hold.release():
                losses.append(f"{hold.name}: {hold.lost}")

    with Client("memory://keeper-end") as client:
        # When threads acquire and release locks at all moments, some only after a renewal
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # Then no hold was lost
    assert losses == []


def test_a_dropped_client_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given clients that are used once and dropped without close()
    monkeypatch.setattr(keeper, "LINGER_S", 0.05)
    before = keepers()
    for _ in range(5):
        Client("memory://keeper-end").lock("once", ttl=TTL_S).acquire().release()
    # Then their renewers end soon
    until(lambda: keepers() <= before, "the renewers have ended", 10)


def test_a_wake_up_does_not_extend_the_idle_time_of_a_renewer() -> None:
    # Given a renewer that has had nothing to do since time 100
    with Client("memory://keeper-end") as client:
        lingering = client._ctx.keeper
        lingering._idle_since, lingering._look_at = 100.0, math.inf
        # When it is woken shortly before its idle time has expired, then it sleeps for the rest
        woken = 100.0 + keeper.LINGER_S - 0.25
        assert lingering._plan(woken) == pytest.approx(0.25)
        # And then it ends
        assert lingering._plan(100.0 + keeper.LINGER_S) is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_renewer_whose_thread_is_killed_is_replaced() -> None:
    with Client("memory://keeper-end") as client:
        hold = client.lock("x", ttl=TTL_S).acquire()
        for _ in range(3):
            # When something raises in the thread of the renewer
            deadline, mine = hold._lease.deadline, client._ctx.keeper
            (thread,) = (one for one in threading.enumerate() if one.name == "holdfast-keeper")
            ident = ctypes.c_ulong(thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))
            mine._latch.set()
            thread.join(10)
            assert not thread.is_alive()
            # Then another thread renews the hold
            while hold._lease.deadline == deadline:
                hold.check()
                time.sleep(0.01)
