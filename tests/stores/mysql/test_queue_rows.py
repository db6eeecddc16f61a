"""Queues on MySQL and MariaDB: see ``tests/stores/sql/queues.py``; locked rows, long requests."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

import pytest

from holdfast import Client, ConfigError, HoldfastError
from holdfast.core.queue.model import Pace
from holdfast.runtime.blocking import run_sync
from holdfast.stores.mysql.schema import QUEUE_VERSION
from holdfast.testing.faces import FACES, Face
from tests.servers.mariadb_server import MariadbServer
from tests.servers.process import until
from tests.stores.mysql.conftest import NewServer
from tests.stores.sql.queueing import WITHIN_S, Verbs, job
from tests.stores.sql.queues import *  # noqa: F403
from tests.stores.sql.queues import Make


def test_a_job_row_removed_by_hand_blocks_no_other_job(
    new_verbs: Make, shared_mariadb: MariadbServer
) -> None:
    verbs = new_verbs()
    verbs.put(job("gone", "g"), job("next", "g"), job("gone too"), job("plain"))
    with shared_mariadb.connect(autocommit=True) as other, other.cursor() as cursor:
        cursor.execute(
            "DELETE j FROM holdfast_jobs j JOIN holdfast_queues q ON q.id = j.queue "
            "WHERE q.name = %s AND j.payload LIKE 'gone%%'",
            (verbs.queue,),
        )
    assert sorted(d.payload for d in verbs.drain()) == [b"next", b"plain"]


def test_a_repair_by_a_take_that_began_earlier_shortens_no_pause(
    new_verbs: Make, shared_mariadb: MariadbServer
) -> None:
    verbs = new_verbs()
    verbs.put(job("a", "g"), job("b", "g"))
    take = verbs.wish(pace=Pace(60.0))
    assert verbs.settle(take, verbs.take(take)) == [True]
    with shared_mariadb.connect(autocommit=True) as other, other.cursor() as cursor:

        def pause() -> Any:
            cursor.execute(
                "SELECT t.queue, t.moment FROM holdfast_tracks t "
                "JOIN holdfast_queues q ON q.id = t.queue WHERE q.name = %s",
                (verbs.queue,),
            )
            return cursor.fetchone()

        queue, until_us = pause()
        # When a take repairs the queue that read the clock 10 s before the group was settled
        cursor.execute(
            f"CALL holdfast_queue_mend_{QUEUE_VERSION}(%s, %s)", (queue, until_us - 70_000_000)
        )
        assert pause() == (queue, until_us)


def test_a_group_whose_row_is_locked_is_waited_for_and_no_other(
    new_verbs: Make, shared_mariadb: MariadbServer
) -> None:
    verbs = new_verbs()
    verbs.put(job("a", "a"), job("b", "b"))
    with shared_mariadb.connect() as other, other.cursor() as cursor:
        # Given a session that has locked the row of the group that is due first
        cursor.execute(
            "SELECT t.stands FROM holdfast_tracks t JOIN holdfast_queues q ON q.id = t.queue "
            "WHERE q.name = %s AND t.grp = 'a' FOR UPDATE",
            (verbs.queue,),
        )
        # Then another group is served, and a take that needs the locked group waits for it
        assert [d.payload for d in verbs.take(verbs.wish(most=2))] == [b"b"]
        later = threading.Timer(0.3, other.rollback)
        later.start()
        got = verbs.take(verbs.wish())
        later.join()
        assert [d.payload for d in got] == [b"a"]


def test_a_group_is_not_called_empty_while_a_job_is_put_into_it(
    new_verbs: Make, shared_mariadb: MariadbServer
) -> None:
    one, other = new_verbs(), new_verbs()
    one.put(job("first", "g"), job("known", key="known"))
    request = one.wish(most=2)
    got = one.take(request)
    with shared_mariadb.connect() as third, third.cursor() as cursor:
        # Given a put that is stopped after it has put a job into the group
        cursor.execute("SELECT ends FROM holdfast_ids WHERE id = 'known' FOR UPDATE")
        put = threading.Thread(
            target=other.put, args=(job("second", "g"), job("again", key="known"))
        )
        put.start()
        until(lambda: waits(shared_mariadb) == 1, "the put waits")
        # When the last job of the group is settled before the put has ended
        settled: list[Any] = []
        settle = threading.Thread(target=lambda: settled.extend(one.settle(request, got)))
        settle.start()
        time.sleep(0.3)
        third.rollback()
        put.join()
        settle.join()
    # Then the new job is the first one
    assert settled == [True, True]
    assert [d.payload for d in one.drain()] == [b"second"]


def waits(server: MariadbServer) -> int:
    """The number of sessions that wait for a lock.

    The server refreshes this table only if it was not read in the last 100 ms.
    """
    time.sleep(0.12)
    ((found,),) = server.ask("SELECT COUNT(*) FROM information_schema.innodb_lock_waits")
    return int(found)


def test_a_put_larger_than_the_packet_limit_is_refused(new_verbs: Make) -> None:
    verbs = new_verbs()
    big = "x" * 250_000
    assert verbs.put(*(job(big) for _ in range(20))) == [True] * 20
    assert 1 < len(verbs.take(verbs.wish(most=20))) < 20
    with pytest.raises(ConfigError, match="put fewer at once"):
        verbs.put(*(job(big) for _ in range(40)))


def test_more_jobs_than_fit_into_one_request_are_put_in_several(url: str, own_name: str) -> None:
    with Client(url) as client:
        queue = client.queue(own_name)
        assert len(queue.put_many(["x" * 250_000] * 40)) == 40
        assert queue.stats().waiting == 40
        assert queue.purge() == 40


@pytest.mark.parametrize("face", FACES.values(), ids=["threads", "asyncio"])
def test_a_server_that_takes_shorter_packets_gets_the_jobs_in_more_requests(
    new_server: NewServer, face: Face
) -> None:
    server, items = new_server("max-allowed-packet=1M"), ["x" * 100_000] * 25

    async def main() -> None:
        async with face.client(server.url) as client:
            queue = client.queue("a")
            assert len(await queue.put_many(items)) == len(items)
            assert (await queue.stats()).waiting == len(items)

    face.run(main, 60)


def test_a_connection_cut_for_a_long_request_is_not_reused(new_server: NewServer) -> None:
    with closing(Verbs(new_server("max-allowed-packet=1M").url, "a")) as verbs:
        port: Any = verbs.queues._port  # type: ignore[attr-defined]
        verbs.put(job("x"))
        for _ in range(10):
            # The server's error message can be lost with the connection
            with pytest.raises(HoldfastError, match=r"max_allowed_packet|broke"):
                run_sync(port.call(f"SELECT '{'x' * 1_500_000}'", WITHIN_S))
            assert run_sync(port.call("SELECT 1", WITHIN_S)) == ((1,),)
