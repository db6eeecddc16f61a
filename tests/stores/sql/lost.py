"""Requests of queues and guards that are lost, late or cut off; see ``queue_lost.py``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.guard.model import Abandon, Duty
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.servers.process import until
from tests.stores.queue_lost import *  # noqa: F403
from tests.stores.refresh_lost import *  # noqa: F403
from tests.stores.sql.bench import Bench
from tests.stores.sql.refresh import begin, guards_of, wish
from tests.torture.scale import times


class Late:
    """A client whose requests arrive after it has given them up and withdrawn them."""

    def __init__(self, bench: Bench, client: Client, proxy: Proxy) -> None:
        self.bench, self.client, self.proxy = bench, client, proxy

    @contextlib.contextmanager
    def sends(self, verb: str) -> Iterator[None]:
        """The block gives up its first request of this verb, which arrives at the block's end."""
        before = self.bench.buried()
        late = self.proxy.arm(self.bench.word(verb), HOLD_REQUEST)
        yield
        until(lambda: self.bench.buried() - before, "it is withdrawn")
        late.let_go()
        until(lambda: self.connections() <= 2, "its connection has ended")

    def connections(self) -> int:
        self.client.inspect("nobody", exact=True)  # closes the given-up ones that got a reply
        return self.proxy.connections


@pytest.fixture
def late(bench: Bench, by_proxy: Client, proxy: Proxy) -> Late:
    return Late(bench, by_proxy, proxy)


def test_a_late_copy_of_a_take_that_was_given_up_gets_nothing(
    late: Late, locks: Client, own_name: str
) -> None:
    other = locks.queue(own_name)
    for number in range(times(50, 2)):
        other.put(number, group="g")
        with late.sends("queue_take"), pytest.raises(StoreUnavailable):
            late.client.queue(own_name).take(timeout=0.05)
        # Then another client can take the job, at its first attempt
        job = other.take(timeout=5)
        assert job is not None
        assert (job.payload, job.attempt) == (number, 1)
        assert job.ack()


def test_a_request_abandoned_on_its_way_gets_no_refresh_lease(
    late: Late, locks: Client, own_name: str
) -> None:
    guards = guards_of(late.client)
    for number in range(times(50, 2)):
        mine = wish(own_name, f"{number}")
        with late.sends("refresh_begin"):
            with pytest.raises(StoreUnavailable, match="gave no answer"):
                run_sync(guards.begin(mine, 0.1))
            given_up = Abandon(mine.entry, mine.id, 1.0, suspect=True)
            assert run_sync(guards.abandon(given_up, 10.0)) is False
            assert not isinstance(begin(locks, mine), Duty)  # nor has a copy of it
        assert isinstance(begin(locks, wish(own_name, f"{number}")), Duty)
