"""Requests of queues that are lost or cut off: see ``tests/stores/sql/queue_lost.py``."""

from __future__ import annotations

from holdfast import Client
from holdfast.testing.faults import RESET_REPLY, Proxy
from tests.stores.sql.queue_lost import *  # noqa: F403

#: The request by which a waiting worker asks for due jobs.
PEEK = b"t.stands IN (0, 1, 2)"


def test_a_wait_that_is_cut_off_finds_what_comes(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client
) -> None:
    armed = proxy.arm(PEEK, RESET_REPLY)
    queue = by_proxy.queue(own_name)
    assert queue.take(timeout=0.5) is None
    assert armed.hits == 1
    locks.queue(own_name).put("now")
    job = queue.take(timeout=10)
    assert job is not None
    assert job.ack()
