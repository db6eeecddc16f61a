"""A Galera cluster: nodes do not see each other's row locks, and still no two claims hold."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.asking import Asking
from holdfast.core.finding import Level
from holdfast.core.guard.model import Abandon, Begun, Busy, Duty, Entry, Wish
from holdfast.core.model import Held
from holdfast.core.queue.model import Delivered
from holdfast.runtime.blocking import run_sync
from tests.servers.galera import Galera
from tests.stores.crowds import at_once, overlaps, turns_at
from tests.stores.examined import worst
from tests.stores.mysql.conftest import Direct
from tests.stores.sql.queueing import Verbs, job
from tests.stores.sql.refresh import finish, guards_of, invalidate, wish
from tests.torture.scale import times

SECONDS = times(60, 2)
ROUNDS = times(500, 25)
JOBS = times(1000, 25)
R = TypeVar("R")
#: Maximum number of attempts of one request.
RETRIES = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Galera]:
    """Three nodes that have the tables."""
    with Galera(tmp_path_factory.mktemp("galera")) as one:
        with Client(one.urls[0]) as client:
            client.lock("warm", timeout=20).acquire().release()
        yield one


def _insisted(send: Callable[[], R]) -> R:
    """Send a request until it has a reply, as the core does.

    A node whose transaction loses against that of another node can break off in the middle of its
    reply.
    """
    for _ in range(RETRIES):
        with contextlib.suppress(StoreUnavailable):
            return send()
    raise AssertionError(f"{RETRIES} answers were broken off")


def test_of_two_nodes_written_at_the_same_time_one_grants(cluster: Galera) -> None:
    nodes = [Direct(url) for url in cluster.urls[:2]]
    for turn in range(ROUNDS):
        claims = [one.claim(f"race:{turn}", 2 * turn + at + 1) for at, one in enumerate(nodes)]
        answers = at_once(2, lambda at: _insisted(lambda: nodes[at].join(claims[at])))  # noqa: B023
        held = [one for one in answers if isinstance(one, Held)]
        assert len(held) == 1, answers
    for one in nodes:
        one.close()


def test_processes_on_all_nodes_never_overlap(cluster: Galera) -> None:
    # Given processes on each of the nodes that all lock one name
    places = [(url, "turns", float(SECONDS), 0.002) for url in 2 * cluster.urls]
    turns = turns_at(places, "tests.stores.acts:takes_turns")
    # Then no two holds overlap, and fences rise with time
    assert overlaps(turns) == []
    assert all(turns)


def test_jobs_on_two_nodes_come_once_and_in_order(cluster: Galera, own_name: str) -> None:
    # Given two nodes, each with a client that puts into and takes from the same group
    nodes = [Verbs(url, own_name) for url in cluster.urls[:2]]
    found: list[list[Delivered]] = [[], []]

    def work(at: int) -> None:
        for number in range(JOBS):
            put = nodes[at].request(job(f"{at}:{number}", "g"), job(f"{at}:{number}"))
            _insisted(lambda: nodes[at].send(put))  # noqa: B023
            request = nodes[at].wish(most=2)
            got = _insisted(lambda: nodes[at].take(request))  # noqa: B023
            done = _insisted(lambda: nodes[at].settle(request, got))  # noqa: B023
            found[at] += [one for one, ours in zip(got, done, strict=True) if ours]

    at_once(2, work)
    time.sleep(0.5)
    found[0] += nodes[0].drain()
    # Then each job was done once, and those of the group in order
    assert len(found[0]) + len(found[1]) == 4 * JOBS
    mine = sorted((one.fence, one.seq, one.payload) for both in found for one in both if one.group)
    assert len({seq for _, seq, _ in mine}) == 2 * JOBS
    assert [seq for _, seq, _ in mine] == sorted(seq for _, seq, _ in mine)
    for at in (b"0:", b"1:"):
        numbers = [int(payload[2:]) for _, _, payload in mine if payload.startswith(at)]
        assert numbers == sorted(numbers)
    for one in nodes:
        one.close()


def test_what_is_begun_on_one_node_and_invalidated_on_another_is_not_stored(
    cluster: Galera, own_name: str
) -> None:
    with Client(cluster.urls[0]) as one, Client(cluster.urls[1]) as two:
        for turn in range(ROUNDS):
            mine = wish(own_name, f"{turn % 3}")
            begun = run_sync(guards_of(one).begin(mine, 20.0))
            assert isinstance(begun, Duty)
            invalidate(two, mine)
            assert finish(one, mine, begun.fence) is False
            assert run_sync(guards_of(one).read([mine.entry], 20.0)) == [None]


def _begun(client: Client, mine: Wish) -> Begun:
    """Begin as a guard does: again, if a node breaks off its reply in the middle."""
    ctx, guards = client._ctx, guards_of(client)
    begin = Asking(ctx).insist(lambda within: guards.begin(mine, within), ctx.now() + 20.0)
    return run_sync(begin)


def test_of_callers_that_begin_on_all_nodes_one_computes(cluster: Galera, own_name: str) -> None:
    clients = [Client(url) for url in cluster.urls]
    for turn in range(ROUNDS):
        wishes = [wish(own_name, f"{turn % 3}") for _ in clients]
        answers = at_once(3, lambda at: _begun(clients[at], wishes[at]))  # noqa: B023
        kinds = sorted(type(one).__name__ for one in answers)
        assert kinds == [Busy.__name__, Busy.__name__, Duty.__name__]
        mine = wishes[[isinstance(one, Duty) for one in answers].index(True)]
        gone = Abandon(Entry(own_name, f"{turn % 3}"), mine.id, 60.0)
        assert run_sync(guards_of(clients[0]).abandon(gone, 20.0)) in (True, False)
        # An abandon at a node that has not yet received the begin ends nothing
        invalidate(clients[turn % 3], mine)
    for client in clients:
        client.close()


@pytest.mark.usual(1)
@pytest.mark.parametrize("seconds", [5, 50])
def test_doctor_names_the_cluster_and_a_stall_that_takes_long_to_end(
    cluster: Galera, seconds: int
) -> None:
    node = cluster.nodes[1]
    ((before,),) = node.ask("SELECT @@global.innodb_lock_wait_timeout")
    try:
        node.ask(f"SET GLOBAL innodb_lock_wait_timeout = {seconds}")
        found = worst(node.url)
    finally:
        node.ask(f"SET GLOBAL innodb_lock_wait_timeout = {before}")
    assert found["galera"].level is Level.WARN
    assert "cluster of 3, Primary" in found["galera"].text
    assert ("innodb_lock_wait_timeout" in found) == (seconds > 5)
