"""A renewal, and a step of the clock, in the middle of a verb of another client.

A renewal does not lock the row of its line. So it can come after another verb has read the clock,
and before that verb reads the claim. Each test stops a verb at this point: the verb waits for a row
that the test has locked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg

from holdfast import Client
from holdfast.core.model import Held
from holdfast.core.queue.model import Delivered
from tests.servers.process import until
from tests.stores.crowds import waiting
from tests.stores.sql.fixtures import MakeClient
from tests.stores.sql.queueing import Verbs, job
from tests.stores.stepped import ClockGround

#: Seconds of a lease: longer than the waiter TTL, so that it is corrected by its own ttl.
TTL_S = 4.0
#: Seconds for which a verb is stopped. This is more than the 1 % of a lease by which the holder's
#: deadline is earlier than the store's.
STALL_S = 0.5
#: The lock that `queue_alone` takes: a copy of a take waits until the first one has ended.
ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s::uuid::text, 7236144))"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@contextmanager
def stopped(url: str, statement: str, *values: object) -> Iterator[Callable[[], None]]:
    """Lock these rows; the yielded function waits until another session waits for one of them."""
    with psycopg.connect(url) as one, psycopg.connect(url, autocommit=True) as other:
        assert one.execute(statement, values).rowcount == 1
        yield lambda: until(lambda: other.execute(WAITING).fetchone(), "a verb stands still")
        one.rollback()


def test_a_waiter_that_read_the_clock_before_it_was_set_back_takes_nothing(
    clocked: ClockGround,
) -> None:
    with Client(clocked.url) as client, Client(clocked.url) as other:
        hold = client.lock("x", ttl=TTL_S, auto_renew=False).acquire()
        with waiting(other, "x") as served:
            # Given a waiter that asks for its state, and has read the clock
            rows = "SELECT 1 FROM holdfast.claims WHERE name = 'x' AND NOT held FOR UPDATE"
            with stopped(clocked.url, rows) as asked:
                asked()
                # When the clock is set back, and the holder renews
                clocked.clock.step(-3600)
                hold.extend()
            # Then the waiter continues, and the holder keeps the lock
            time.sleep(0.3)
            assert not served.is_set()
            assert hold.remaining() > 2
            hold.release()


def test_a_waiter_that_is_slow_cuts_no_lease_that_was_renewed_meanwhile(
    url: str, new_client: MakeClient, own_name: str
) -> None:
    client, other = new_client(), new_client()
    hold = client.lock(own_name, ttl=TTL_S, auto_renew=False).acquire()
    with waiting(other, own_name):
        rows = "SELECT 1 FROM holdfast.claims WHERE name = %s AND NOT held FOR UPDATE"
        with stopped(url, rows, own_name.encode()) as asked:
            asked()
            time.sleep(STALL_S)
            hold.extend()
        # The store's record of the hold ends no earlier than the holder's deadline
        time.sleep(0.1)
        (line,) = client.inspect(own_name, exact=True)
        assert line.holders[0].expires_in > hold.remaining()
        hold.release()


def test_a_take_that_read_the_clock_before_it_was_set_back_takes_nothing_back(
    clocked: ClockGround,
) -> None:
    with closing(Verbs(clocked.url, "q")) as ours, closing(Verbs(clocked.url, "q")) as others:
        ours.put(job("lent"))
        take, later = ours.wish(ttl=TTL_S), others.wish(ttl=TTL_S)
        (lent,) = ours.take(take)
        again: list[Delivered] = []
        thread = threading.Thread(target=lambda: again.extend(others.take(later)))
        # Given a take that has read the clock, and waits for a copy of itself
        with stopped(clocked.url, ALONE, later.id) as asked:
            thread.start()
            asked()
            # When the clock is set back, and the delivery is renewed
            clocked.clock.step(-3600)
            assert isinstance(ours.extend(take, [lent], TTL_S)[0], Held)
        thread.join(20)
        # Then the job isn't delivered a second time, and the first delivery is still valid
        assert again == []
        assert ours.settle(take, [lent]) == [True]
