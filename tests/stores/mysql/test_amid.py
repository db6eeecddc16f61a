"""A delivery is renewed, and the clock is set back, in the middle of a take by another client.

The take is stopped after it has read the clock, at a row that the test has locked.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing

from holdfast.core.model import Held
from holdfast.core.queue.model import Delivered, Patience
from holdfast.runtime.blocking import run_sync
from tests.servers.clock import Clock
from tests.servers.mariadb_server import DATABASE
from tests.servers.process import until
from tests.stores.mysql.conftest import NewServer
from tests.stores.sql.queueing import Verbs, job

#: Seconds of the lease of a dead worker's delivery, and of a delivery that is renewed.
SHORT_S, LONG_S = 0.5, 30.0
#: Maximum seconds that the take waits for a row, and the test for the take.
PATIENT_S = 20.0
#: Seconds by which the clock is set back.
STEP_S = 2.0
WAITING = (
    "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'DELETE FROM holdfast_jobs%'"
)


def test_a_take_that_read_the_clock_before_it_was_set_back_takes_nothing_back(
    new_server: NewServer, server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_server()
    with closing(Verbs(server.url, "q")) as ours, closing(Verbs(server.url, "q")) as others:
        # Given an expired delivery on its last attempt, and another delivery whose lease lasts
        ours.put(job("gone", "a"))
        (gone,) = ours.take(ours.wish(ttl=SHORT_S, patience=Patience(attempts=1)))
        ours.put(job("kept", "b"))
        take = ours.wish(ttl=LONG_S)
        (kept,) = ours.take(take)
        time.sleep(SHORT_S + STEP_S)
        # And a take that is about to make the first one a dead letter
        again: list[Delivered] = []
        asking = others.queues.take(others.wish(most=9), PATIENT_S)
        thread = threading.Thread(target=lambda: again.extend(run_sync(asking).deliveries))
        with server.root(database=DATABASE, autocommit=False) as one, one.cursor() as cursor:
            row = "SELECT 1 FROM holdfast_jobs WHERE seq = %s FOR UPDATE"
            assert cursor.execute(row, (gone.seq,))
            thread.start()
            until(lambda: server.ask(WAITING), "the take stands still")
            # When the clock is set back, and the other delivery gets a shorter lease
            server_clock.step(-STEP_S)
            assert isinstance(ours.extend(take, [kept], STEP_S - SHORT_S)[0], Held)
        thread.join(PATIENT_S)
        # Then the take leaves that delivery alone
        assert again == []
        assert ours.settle(take, [kept]) == [True]
