"""Requests and replies that are lost or cut off: nothing leaks, and no result is false.

The tests of a store import these, and provide ``words`` (how to recognise a verb on the wire) and
``line``. They also provide a ``proxy``, ``by_proxy`` (a client behind it) and ``locks`` (a client
without it).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import LineRecord
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
    delay_reply,
)
from tests.servers.process import until
from tests.torture.scale import times

Look = Callable[[str], LineRecord | None]
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
DROPS = pytest.mark.parametrize("fault", [DROP_REQUEST, DROP_REPLY], ids=["request", "reply"])


class Words(NamedTuple):
    """Bytes that the requests of one verb contain, and those of no other verb."""

    join: bytes
    leave: bytes
    #: One renewal.
    renew: bytes
    #: The request by which a waiter asks for its state.
    turn: bytes
    #: All requests of a waiter.
    asks: tuple[bytes, ...]
    #: The two verbs for several names.
    join_free: bytes
    leave_all: bytes
    #: The number of attempts per test in a full run.
    tries: int = 50

    def times(self, usual: int) -> range:
        """The attempts of this run."""
        return range(times(self.tries, usual))


@RESETS
def test_a_join_that_is_cut_off_is_sent_again_and_enters_once(
    fault: Fault, words: Words, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in words.times(5):
        name = f"{own_name}:{number}"
        armed = proxy.arm(words.join, fault)
        hold = by_proxy.lock(name).acquire(timeout=20)
        found = line(name)
        assert hold is not None
        assert found is not None
        assert [one.fence for one in found.claims] == [hold.fence]
        assert armed.hits == 1
        assert hold.release()
        assert line(name) is None


@RESETS
def test_a_leave_that_is_cut_off_returns_the_truth(
    fault: Fault, words: Words, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in words.times(5):
        name = f"{own_name}:{number}"
        hold = by_proxy.lock(name).acquire()
        armed = proxy.arm(words.leave, fault)
        assert hold.release()
        assert armed.hits == 1
        assert line(name) is None


@RESETS
def test_several_names_at_once_that_are_cut_off_are_entered_once_and_left(
    fault: Fault, words: Words, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in words.times(5):
        names = [f"{own_name}:{number}:{part}" for part in "ab"]
        entering = proxy.arm(words.join_free, fault)
        hold = by_proxy.all(*names, timeout=20).acquire()
        for name in names:
            found = line(name)
            assert found is not None
            assert [one.fence for one in found.claims] == [hold.fences[name]]
        leaving = proxy.arm(words.leave_all, fault)
        assert hold.release()
        assert entering.hits == leaving.hits == 1
        assert [line(name) for name in names] == [None, None]


@RESETS
def test_a_renewal_that_is_cut_off_costs_no_hold(
    fault: Fault, words: Words, by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    hold = by_proxy.lock(own_name, ttl=6).acquire()
    for _ in words.times(5):
        armed = proxy.arm(words.renew, fault)
        with contextlib.suppress(StoreUnavailable):
            hold.extend()
        armed.wait()
    hold.extend()
    hold.check()
    assert hold.release()


@RESETS
def test_a_waiter_that_is_cut_off_keeps_its_place(
    fault: Fault,
    words: Words,
    by_proxy: Client,
    proxy: Proxy,
    own_name: str,
    locks: Client,
    line: Look,
) -> None:
    def waiting(name: str) -> list[int]:
        found = line(name)
        return [one.fence for one in found.waiters] if found else []

    def stand(client: Client, name: str) -> None:
        with client.lock(name, timeout=20) as hold:
            served.append(hold.fence)

    for number in words.times(len(words.asks)):
        name = f"{own_name}:{number}"
        # Given a holder, a waiter behind the proxy, and another waiter behind that one
        holder = locks.lock(name).acquire()
        armed = proxy.arm(words.asks[number % len(words.asks)], fault)
        served: list[int] = []
        threads = []
        for client in (by_proxy, locks):
            threads.append(threading.Thread(target=stand, args=(client, name)))
            threads[-1].start()
            until(lambda: len(waiting(name)) == len(threads), "it waits")  # noqa: B023
        # When the next request of the first waiter is cut off, and it has asked again
        armed.wait()
        again = proxy.arm(words.turn, delay_reply(0.0))
        again.wait()
        before = waiting(name)
        holder.release()
        for thread in threads:
            thread.join(20)
        # Then the waiters were served in their order
        assert served == before
        assert line(name) is None


@DROPS
def test_a_join_without_an_answer_is_not_called_busy_and_leaks_nothing(
    fault: Fault, words: Words, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in words.times(2):
        name = f"{own_name}:{number}"
        armed = proxy.arm(words.join, fault)
        with pytest.raises(StoreUnavailable, match="is unknown whether the name is free"):
            by_proxy.lock(name).acquire(timeout=1.0)
        assert armed.hits == 1
        until(lambda: line(name) is None, "nobody is left")  # noqa: B023


@DROPS
def test_a_leave_without_an_answer_is_never_called_not_held(
    fault: Fault, words: Words, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in words.times(1):
        name = f"{own_name}:{number}"
        hold = by_proxy.lock(name, ttl=2, auto_renew=False).acquire()
        armed = proxy.arm(words.leave, fault)
        with contextlib.suppress(StoreUnavailable):
            assert hold.release()
        assert armed.hits == 1
        until(lambda: line(name) is None, "nobody is left")  # noqa: B023
