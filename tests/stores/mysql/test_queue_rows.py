"""The rows of groups: their locks make a verb atomic, and names are compared by their bytes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, HoldfastError, StoreUnavailable
from holdfast.core.model import Gone, Held
from holdfast.core.queue.model import Delivered, JobState, Pace, Patience, Start, Verdict
from holdfast.core.queue.policy import EXPIRED_REASON
from holdfast.runtime.blocking import run_sync
from tests.servers.mariadb_server import MariadbServer
from tests.stores.mysql.conftest import WITHIN_S, eventually
from tests.stores.mysql.queueing import Verbs, job
from tests.stores.mysql.test_rows import at_once
from tests.torture.scale import times

Make = Callable[[], Verbs]
CREW = 6
JOBS = times(20_000, 160)
ROUNDS = times(300, 10)


@pytest.fixture
def new_verbs(mariadb_url: str, own_name: str) -> Iterator[Make]:
    """Makes clients of one queue, each with its own connections."""
    made: list[Verbs] = []

    def make() -> Verbs:
        made.append(Verbs(mariadb_url, own_name))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_many_simultaneous_takes_keep_each_group_in_order(new_verbs: Make) -> None:
    # Given groups, into which two clients put while others take
    groups = [f"g{at}" for at in range(5)]
    lock = threading.Lock()
    inside: Counter[str] = Counter()
    seen: dict[str, list[Delivered]] = defaultdict(list)
    wrong: list[str] = []
    over, end = threading.Event(), time.monotonic() + times(600, 60)

    def put(number: int) -> None:
        verbs = new_verbs()
        for at in range(0, JOBS // 2, 4):
            verbs.put(*(job(f"{number}:{at + i}", groups[(at + i) % 5]) for i in range(4)))
        verbs.put(job("plain"))

    def take() -> None:
        verbs = new_verbs()
        while not over.is_set() and time.monotonic() < end:
            request = verbs.wish(most=3)
            got = verbs.take(request)
            with lock:
                inside.update(one.group for one in got if one.group)
                for one in got:
                    seen[one.group].append(one)
                    if inside[one.group] > 1:
                        wrong.append(f"two at once: {one}")
                if wrong or sum(map(len, seen.values())) == JOBS + 2:
                    over.set()
            time.sleep(0.001)
            with lock:
                inside.subtract(one.group for one in got if one.group)
            if got and not all(verbs.settle(request, got)):
                wrong.append(f"not ours: {got}")

    crew = [threading.Thread(target=put, args=(at,)) for at in range(2)]
    crew += [threading.Thread(target=take) for _ in range(CREW - 2)]
    # When all of them have ended
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    # Then each job came once, each group's jobs one at a time, in order, with rising fences
    assert wrong == []
    assert len(seen[""]) == 2
    for group in groups:
        in_order(seen[group])


def in_order(mine: list[Delivered]) -> None:
    """Check that these are all jobs of one group, in the order in which two clients put them."""
    assert len(mine) == JOBS // 5
    seqs, fences = [one.seq for one in mine], [one.fence for one in mine]
    assert seqs == sorted(set(seqs))
    assert fences == sorted(set(fences))
    for putter in (b"0:", b"1:"):
        numbers = [int(one.payload[2:]) for one in mine if one.payload.startswith(putter)]
        assert numbers == sorted(numbers)


def test_a_take_and_its_copies_and_its_undo_at_once(new_verbs: Make) -> None:
    verbs = [new_verbs() for _ in range(3)]
    one = verbs[0]
    for turn in range(ROUNDS):
        one.put(*(job(at, f"g{at % 3}") for at in range(6)))
        # When a take is sent twice together, and in every second round its undo as well
        request = one.wish(most=3)
        acts: list[Callable[[], Any]] = [lambda v=v: v.take(request) for v in verbs[:2]]  # type: ignore[misc]  # noqa: B023
        if turn % 2:
            acts.append(lambda: verbs[2].give_back(request))  # noqa: B023
        answers = at_once(len(acts), lambda at: acts[at]())  # noqa: B023
        if turn % 2:
            # Then a later copy gets nothing, and nothing stays delivered
            assert one.take(request) == []
            one.give_back(request)
        else:
            # Then both copies return the same deliveries
            first, second = ({(d.seq, d.fence) for d in found} for found in answers)
            assert first == second
            assert 0 < len(first) <= 3
            assert all(one.settle(request, answers[0]))
        left = one.drain()
        assert len(left) == (6 if turn % 2 else 6 - len(answers[0]))
        assert {d.attempt for d in left} == {1}


def test_a_copy_of_a_put_changes_nothing(new_verbs: Make) -> None:
    one, other = new_verbs(), new_verbs()
    for turn in range(ROUNDS):
        request = one.request(job("a", "g"), job("b", key=f"k{turn}"), job("c", key=f"k{turn}"))
        answers = at_once(2, lambda at: (one, other)[at].send(request))  # noqa: B023
        assert answers == [[True, True, False]] * 2
    late = one.request(job("late"))
    one.put(job("last"))
    with pytest.raises(StoreUnavailable, match="came late"):
        other.send(late)
    assert Counter(d.payload for d in one.drain()) == {b"a": ROUNDS, b"b": ROUNDS, b"last": 1}


def test_names_groups_and_ids_are_bytes(mariadb_url: str, own_name: str) -> None:
    odd = ["a", "A", "a ", "a\0", "a%", "\N{LATIN SMALL LETTER A WITH DIAERESIS}", "a\\'"]
    for at, queue in enumerate(odd):
        verbs = Verbs(mariadb_url, own_name + queue)
        assert verbs.put(*(job(at, group, key) for group in odd for key in (f"{group}{group}",)))
        assert verbs.put(job("again", "x", odd[0] * 2)) == [False]
        verbs.close()
    for at, queue in enumerate(odd):
        verbs = Verbs(mariadb_url, own_name + queue)
        got = verbs.take(verbs.wish(most=100))
        assert sorted(d.group for d in got) == sorted(odd)
        assert {d.payload for d in got} == {str(at).encode()}
        verbs.close()


def test_what_a_dead_worker_had_comes_first_again_or_is_a_dead_letter(new_verbs: Make) -> None:
    verbs = new_verbs()
    verbs.put(job("first", "g"), job("second", "g"), job("plain"))
    dying = verbs.wish(most=5, ttl=3.0, patience=Patience(2))
    lost = {one.payload: one for one in verbs.take(dying)}
    assert set(lost) == {b"first", b"plain"}
    assert isinstance(verbs.extend(dying, [lost[b"plain"]], 0.2)[0], Held)
    time.sleep(3.05)
    # The lease has expired, whether another client has noticed it or not
    assert verbs.settle(dying, list(lost.values())) == [False, False]
    assert isinstance(verbs.extend(dying, [lost[b"first"]], 5.0)[0], Gone)
    again = verbs.wish(most=5, ttl=0.3, patience=Patience(2))
    got = {one.payload: one for one in verbs.take(again)}
    assert set(got) == {b"first", b"plain"}
    assert [(d.attempt, d.fence > lost[p].fence) for p, d in got.items()] == [(2, True)] * 2
    time.sleep(0.35)
    # That was the last attempt
    assert [d.payload for d in verbs.take(verbs.wish(most=5))] == [b"second"]
    letters = run_sync(verbs.queues.jobs(verbs.queue, JobState.DEAD, None, 9, WITHIN_S))
    assert [one.payload for one in letters] == [b"first", b"plain"]
    assert {one.reason for one in letters} == {EXPIRED_REASON.format("host:1:test")}


def test_the_interval_is_kept_after_a_lost_lease_and_a_return(new_verbs: Make) -> None:
    verbs = new_verbs()
    for start, soonest in ((Start.ACK, 1.4), (Start.TAKE, 1.2)):
        verbs.put(job("x", f"g{start}"))
        pace = Pace(1.2, start)
        taken = verbs.wish(ttl=0.2, pace=pace)
        begun = time.monotonic()  # before: its answer may be late
        assert len(verbs.take(taken)) == 1
        asked = verbs.wish(most=5, ttl=30, pace=pace)
        got = eventually(lambda asked=asked: verbs.take(asked))
        took = time.monotonic() - begun
        assert took >= soonest - 0.05, (start, took)
        assert verbs.settle(asked, got, Verdict.RETURN) == [True]
        assert verbs.take(verbs.wish(most=5)) == []
        assert len(eventually(verbs.drain)) == 1


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
        eventually(lambda: waits(shared_mariadb) == 1)
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


def test_more_jobs_than_fit_into_one_request_are_put_in_several(
    mariadb_url: str, own_name: str
) -> None:
    with Client(mariadb_url) as client:
        queue = client.queue(own_name)
        assert len(queue.put_many(["x" * 250_000] * 40)) == 40
        assert queue.stats().waiting == 40
        assert queue.purge() == 40


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_a_server_that_takes_shorter_packets_gets_the_jobs_in_more_requests(
    new_mariadb: Callable[..., MariadbServer], face: str
) -> None:
    server = new_mariadb("max-allowed-packet=1M")
    items = ["x" * 100_000] * 25
    with Client(server.url) as client:
        queue = client.queue("a")
        if face == "asyncio":
            asyncio.run(_put_many(server.url, items))
        else:
            assert len(queue.put_many(items)) == 25
        assert queue.stats().waiting == 25


def test_a_connection_cut_for_a_long_request_is_not_reused(
    new_mariadb: Callable[..., MariadbServer],
) -> None:
    verbs = Verbs(new_mariadb("max-allowed-packet=1M").url, "a")
    port = verbs.queues._port  # type: ignore[attr-defined]
    try:
        verbs.put(job("x"))
        for _ in range(10):
            # The server's error message can be lost with the connection
            with pytest.raises(HoldfastError, match=r"max_allowed_packet|broke"):
                run_sync(port.call(f"SELECT '{'x' * 1_500_000}'", WITHIN_S))
            assert run_sync(port.call("SELECT 1", WITHIN_S)) == ((1,),)
    finally:
        verbs.close()


async def _put_many(url: str, items: list[str]) -> None:
    async with AsyncClient(url) as client:
        queue = client.queue("a")
        assert len(await queue.put_many(items)) == len(items)
        assert (await queue.stats()).waiting == len(items)
