"""Requests and replies of queues that are cut off: no job is lost, and none is done twice.

The server kit checks this of locks. The tests of a store import these. It provides ``word`` (a
function that returns bytes in the requests of a verb, and of no other), a ``proxy``, ``by_proxy``
(a client behind it) and ``locks`` (a client without it).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.testing.faults import RESET_REPLY, RESET_REQUEST, Fault, Proxy
from tests.servers.process import until
from tests.torture.scale import FULL, times

Word = Callable[[str], bytes]
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(50, 2)


@RESETS
def test_each_verb_of_a_queue_that_is_cut_off_counts_once(
    fault: Fault, word: Word, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    queue, other = by_proxy.queue(own_name), locks.queue(own_name)
    for number in range(TRIES):
        group = "g" if number % 2 else None
        hits = [proxy.arm(word("queue_put"), fault)]
        assert not queue.put(number, group=group, id=f"{number}").duplicate
        assert [job.payload for job in other.jobs()] == [b"j%d" % number]
        queue.put("behind", group=group)
        hits.append(proxy.arm(word("queue_take"), fault))
        job = queue.take(timeout=10)
        assert job is not None
        assert (job.payload, job.attempt) == (number, 1)
        assert other.stats().taken == 1
        hits.append(proxy.arm(word("queue_settle"), fault))
        assert job.ack()
        assert [one.hits for one in hits] == [1, 1, 1]
        assert other.purge() == 1
    stats = other.stats()
    assert (stats.accepted, stats.done, stats.waiting) == (2 * TRIES, TRIES, 0)


@pytest.mark.parametrize("fault", (RESET_REQUEST, RESET_REPLY) if FULL else (RESET_REPLY,))
def test_a_renewal_that_is_cut_off_costs_no_delivery(
    fault: Fault, word: Word, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    queue = by_proxy.queue(own_name, ttl=6)
    queue.put("x", group="g")
    job = queue.take(timeout=10)
    assert job is not None
    before = job._lease.deadline
    proxy.arm(word("queue_extend"), fault).wait()
    until(lambda: job._lease.deadline > before, "it is renewed all the same")
    job.check()
    assert locks.queue(own_name).take(timeout=0) is None
    assert job.ack()
