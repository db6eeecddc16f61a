"""Queue requests and replies that are lost, late or cut off: no job is lost or done twice.

The tests of a store import these. It has the fixture ``bench``.
"""

from __future__ import annotations

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faults import HOLD_REQUEST, RESET_REPLY, RESET_REQUEST, Fault, Proxy
from tests.servers.process import until
from tests.stores.lost import RESETS
from tests.stores.sql.bench import Bench
from tests.torture.scale import FULL, times

TRIES = times(50, 2)


@RESETS
def test_each_verb_that_is_cut_off_counts_once(
    fault: Fault, bench: Bench, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    queue, other = by_proxy.queue(own_name), locks.queue(own_name)
    for number in range(TRIES):
        group = "g" if number % 2 else None
        hits = [proxy.arm(bench.word("queue_put"), fault)]
        assert not queue.put(number, group=group, id=f"{number}").duplicate
        assert [job.payload for job in other.jobs()] == [b"j%d" % number]
        hits.append(proxy.arm(bench.word("queue_take"), fault))
        job = queue.take(timeout=10)
        assert job is not None
        assert (job.payload, job.attempt) == (number, 1)
        hits.append(proxy.arm(bench.word("queue_settle"), fault))
        assert job.ack()
        assert [one.hits for one in hits] == [1, 1, 1]
        assert other.jobs() == []
    stats = other.stats()
    assert (stats.accepted, stats.done, stats.waiting) == (TRIES, TRIES, 0)


@pytest.mark.parametrize("fault", (RESET_REQUEST, RESET_REPLY) if FULL else (RESET_REPLY,))
def test_a_renewal_that_is_cut_off_costs_no_delivery(
    fault: Fault, bench: Bench, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    queue = by_proxy.queue(own_name, ttl=6)
    queue.put("x", group="g")
    job = queue.take(timeout=10)
    assert job is not None
    before = job._lease.deadline
    proxy.arm(bench.word("queue_extend"), fault).wait()
    until(lambda: job._lease.deadline > before, "it is renewed all the same")
    job.check()
    assert locks.queue(own_name).take(timeout=0) is None
    assert job.ack()


def test_a_late_copy_of_a_take_that_was_given_up_gets_nothing(
    bench: Bench, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    def connections() -> int:
        by_proxy.inspect("nobody", exact=True)  # closes the given-up ones that got a reply
        return proxy.connections

    other = locks.queue(own_name)
    for number in range(TRIES):
        other.put(number, group="g")
        before = bench.buried()
        # Given a take that is on its way while its worker gives up and withdraws it
        late = proxy.arm(bench.word("queue_take"), HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            by_proxy.queue(own_name).take(timeout=0.05)
        until(lambda: bench.buried() - before, "it is withdrawn")  # noqa: B023
        # When the take arrives late
        late.let_go()
        until(lambda: connections() <= 2, "its connection has ended")
        # Then another client can take the job, at its first attempt
        job = other.take(timeout=5)
        assert job is not None
        assert (job.payload, job.attempt) == (number, 1)
        assert job.ack()
