"""A holder that dies or stops delays the next waiter until its lease ends, and not longer.

The tests of a store import these, and provide ``url``, ``locks`` (a client there) and ``line``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdfast import Client
from holdfast.core.model import LineRecord
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.servers.process import until
from tests.torture.scale import times

Look = Callable[[str], LineRecord | None]
HOLD = "tests.stores.acts:hold"
TTL_S = 2.0
lag.watch()


def served(locks: Client, name: str) -> tuple[threading.Thread, list[tuple[float, int]]]:
    """A thread that waits for the lock; it notes the time and fence of its hold, and releases."""
    at: list[tuple[float, int]] = []

    def work() -> None:
        with locks.lock(name, timeout=60) as hold:
            at.append((time.monotonic(), hold.fence))

    thread = threading.Thread(target=work)
    thread.start()
    return thread, at


def waits(found: LineRecord | None) -> bool:
    """Return whether the line has a waiter."""
    return bool(found and found.waiters)


def test_the_next_waiter_holds_when_a_killed_holders_lease_expires(
    locks: Client, url: str, own_name: str, line: Look
) -> None:
    for number in range(times(50, 1)):
        name = f"{own_name}:{number}"
        with Subject(HOLD, url, name, TTL_S) as holder:
            first = holder.hear()
            thread, at = served(locks, name)
            until(lambda: waits(line(name)), "one waits")  # noqa: B023
            holder.kill()
            killed, begun = time.monotonic(), boottime()
            thread.join(60)
        assert at[0][0] - killed - lag.since(begun) <= TTL_S + 3.0
        assert at[0][1] > first
        assert line(name) is None


def test_a_holder_stopped_past_its_lease_finds_it_lost_when_continued(
    locks: Client, url: str, own_name: str, line: Look
) -> None:
    for number in range(times(50, 1)):
        name = f"{own_name}:{number}"
        with Subject(HOLD, url, name, TTL_S) as holder:
            first = holder.hear()
            holder.stop()
            thread, at = served(locks, name)
            thread.join(60)
            holder.go_on()
            holder.say("go on")
            assert holder.hear() is False
        assert at[0][1] > first
        assert line(name) is None
