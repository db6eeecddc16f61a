"""Waiting: the watches of waiters, attempts that meet each other, holds that the client ends."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast import AsyncClient, Client, Hold, NotSupported
from holdfast.core.model import (
    Change,
    Claim,
    Gone,
    Held,
    Kind,
    Leave,
    Refused,
    Renewal,
    Spec,
    Waiting,
)
from holdfast.runtime.blocking import run_sync
from holdfast.stores.zookeeper.names import KAZOO, beginning
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.servers.zookeeper import ZooKeeperServer, ask
from tests.stores.zookeeper.conftest import MakeClient, Served, counted, eventually, many, play
from tests.torture.scale import times

lag.watch()


def watched(server: ZooKeeperServer, path: str) -> list[str]:
    """The nodes below this path that some session watches."""
    said = ask(server.host, server.port, "wchp").splitlines()
    return [line for line in said if line.startswith(path)]


def test_many_permits_are_handed_on_at_once_too(
    shared_zookeeper: ZooKeeperServer, new_client: MakeClient, other: Client, own_name: str
) -> None:
    # Given more holders than a waiter watches one by one, and a waiter for any of their permits
    rival = new_client()
    holds = [other.semaphore(own_name, 12).acquire() for _ in range(12)]
    took: list[float] = []
    for _ in range(3):
        waiting = Served(rival.semaphore(own_name, 12, timeout=20))
        eventually(lambda: many(other, own_name) == 13)
        # Then the waiter watches the folder, and no single node
        own = rival._ctx.store._own.claims
        eventually(lambda own=own: any(one.armed for one in own.values()))
        assert watched(shared_zookeeper, f"/holdfast/{own_name}/") == []
        took.append(waiting.after(holds.pop(5).release))
        holds.append(other.semaphore(own_name, 12).acquire())
    assert sorted(took)[1] < 0.25, took  # the server may be late once
    for hold in holds:
        hold.release()


def test_a_try_waits_for_the_tries_ahead_of_it_that_go(
    kazoo: KazooClient, new_client: MakeClient, own_name: str
) -> None:
    client = new_client()
    client.lock(own_name).acquire().release()
    spec = Spec(own_name, Kind.LOCK, 1, 1, 30.0, "doomed")
    start = f"/holdfast/{own_name}/{beginning(Claim('a' * 32, spec), True, KAZOO)}"
    had = 0
    for _ in range(5):
        # Given a free lock, and an attempt that found a claim ahead and is about to leave
        node = kazoo.create(start, b"doomed", ephemeral=True, sequence=True, makepath=True)
        timer = threading.Timer(0.03, kazoo.delete, [node])
        timer.start()
        # Then another attempt isn't refused because of it, unless the leave takes more than 0.1 s
        if hold := client.lock(own_name).acquire(blocking=False):
            had += hold.release()
        timer.join()
    assert had >= 2
    # But a claim that stays is a holder, and an attempt doesn't wait for it
    node = kazoo.create(start, b"holder", ephemeral=True, sequence=True)
    assert client.lock(own_name).acquire(blocking=False) is None
    time.sleep(0.6)
    took = []
    for _ in range(3):
        begun = time.monotonic()
        assert client.lock(own_name).acquire(blocking=False) is None
        took.append(time.monotonic() - begun - lag.since(begun))
    assert min(took) < 0.09
    kazoo.delete(node)


def test_tries_at_once_on_a_free_lock_never_all_fail(new_client: MakeClient, own_name: str) -> None:
    clients, start = [new_client() for _ in range(3)], threading.Barrier(3)
    for client in clients:
        client.lock(f"{own_name}-warm").acquire().release()

    def attempt(client: Client) -> Hold | None:
        start.wait()
        return client.lock(own_name).acquire(blocking=False)

    with ThreadPoolExecutor(3) as pool:
        for _ in range(20):
            (held,) = filter(None, pool.map(attempt, clients))
            assert held.release() is True


def test_an_unrenewed_hold_is_ended_by_its_own_client(
    face: Face, recipe: str, zookeeper_url: str, own_name: str, peer: Client
) -> None:
    async def act(client: AsyncClient) -> None:
        # Given a session that continues, and holds without or with limited renewal
        for options in ({"ttl": 0.3, "auto_renew": False}, {"ttl": 0.3, "max_hold": 0.5}):
            begun = time.monotonic()
            hold = await client.lock(own_name, **options).acquire()
            # Then the next waiter is granted soon after the end of the hold, and not before it
            next_one = await face.outside(lambda: peer.lock(own_name, timeout=20).acquire())
            took = time.monotonic() - begun
            assert hold.remaining() == 0.0
            assert 0.29 < took < 3.0 + lag.since(begun)
            assert await hold.release() is False
            assert next_one.release() is True

    play(face, f"{zookeeper_url}?{recipe}", act, 60.0)


@pytest.mark.parametrize("weight", [1, 2])
def test_an_empty_folder_that_is_removed_is_made_again(
    weight: int, kazoo: KazooClient, new_client: MakeClient, own_name: str
) -> None:
    client = new_client()
    fences = []
    for _ in range(3):
        with client.semaphore(own_name, 2, weight=weight) as hold:
            fences.append(hold.fence)
        kazoo.delete(f"/holdfast/{own_name}")  # as the server does, some time after it is empty
    assert fences == sorted(set(fences))


def test_a_claim_does_not_expire_during_its_turn(
    new_client: MakeClient, own_name: str, other: Client
) -> None:
    store = new_client()._ctx.store
    hold = other.lock(own_name).acquire()
    claim = Claim("d" * 32, Spec(own_name, Kind.LOCK, 1, 1, 5.0, "me"))
    waiting = run_sync(store.join(claim, True, 5.0))
    assert isinstance(waiting, Waiting)
    hold.release()
    # Given a waiter whose TTL expires during its request
    store._own.claims[claim.id].expires = store._port.now() + 0.2
    driver = store._port._driver
    real = driver.send

    def late(request: object, answer: object) -> None:
        time.sleep(0.3)
        real(request, answer)
        store._on_alarm()

    driver.send = late
    answer = run_sync(store.turn(claim, waiting.ticket, 10.0))
    driver.send = real
    time.sleep(0.3)
    # Then it doesn't hold without a node
    assert isinstance(answer, Held)
    assert [one.fence for one in other.inspect(own_name)[0].holders] == [answer.fence]


def test_only_a_turn_grants_a_waiter(
    recipe: str, new_client: MakeClient, zookeeper_url: str, peer: Client, own_name: str
) -> None:
    ours = new_client(f"{zookeeper_url}?{recipe}", label="ours")
    store, claim = ours._ctx.store, a_claim(own_name)
    # Given a waiter
    hold = peer.lock(own_name).acquire()
    waiting = run_sync(store.join(claim, True, WITHIN_S))
    assert isinstance(waiting, Waiting)
    renewal = Renewal(claim, waiting.ticket, 60.0)
    assert isinstance(run_sync(store.turn(claim, waiting.ticket, WITHIN_S)), Waiting)
    with counted(ours) as trips:
        assert isinstance(run_sync(store.turn(claim, waiting.ticket, WITHIN_S)), Waiting)
    assert len(trips) == 1
    # Then a renewal changes nothing, before and after the lock is free
    mine = store._own.claims[claim.id]
    expires = mine.expires
    assert isinstance(run_sync(store.renew([renewal], WITHIN_S))[0], Gone)
    hold.release()
    assert isinstance(run_sync(store.renew([renewal], WITHIN_S))[0], Gone)
    assert (mine.held, mine.expires) == (False, expires)
    held = run_sync(store.turn(claim, waiting.ticket, WITHIN_S))
    assert isinstance(held, Held)
    # And the claim exists only for the client that has joined it
    theirs, passed = peer._ctx.store, renewal._replace(ticket=held.fence)
    assert isinstance(run_sync(theirs.turn(claim, held.fence, WITHIN_S)), Gone)
    assert isinstance(run_sync(theirs.renew([passed], WITHIN_S))[0], Gone)
    with pytest.raises(NotSupported, match="hand over a hold"):
        run_sync(store.change(Change(claim, held.fence, 60.0, detach=True), WITHIN_S))
    assert isinstance(run_sync(store.renew([passed], WITHIN_S))[0], Held)
    assert run_sync(store.leave(Leave(own_name, claim.id, held.fence), WITHIN_S))


# -- a line of ten thousand nodes, most of them dead ---------------------------------------------

MOST = times(9_900, 3_000)
#: Maximum seconds and requests of a verb on a busy machine.
BOUND_S, REQUESTS = 0.5, 12
#: Maximum seconds to inspect the whole line, with one request for each node.
LOOK_S = 8.0
WITHIN_S = 10.0


def a_claim(name: str) -> Claim:
    """A new claim to a lock."""
    return Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, 60.0, "somebody", ""))


def crowd(client: KazooClient, folder: str) -> None:
    """Let ``MOST`` waiters enter a line."""
    for start in range(0, MOST, 500):
        paths = [f"{folder}/{beginning(a_claim('x'), False, KAZOO)}" for _ in range(500)]
        some = paths[: MOST - start]
        for made in [client.create_async(path, ephemeral=True, sequence=True) for path in some]:
            made.get(timeout=60)


def bounded(
    client: Client, verb: Coroutine[Any, Any, Any], bound: float = BOUND_S, requests: int = REQUESTS
) -> Any:
    """Run a verb of this client within limits for its time and requests; return its reply."""
    begun = time.monotonic()
    with counted(client) as trips:
        answer = run_sync(verb)
    took, asked = time.monotonic() - begun, sum(map(len, trips))
    assert took < bound + lag.since(begun), f"{took:.3g} s"
    assert asked <= requests, f"{asked} requests"
    return answer


@pytest.mark.usual(0)
def test_verbs_are_bounded_and_the_living_served_behind_thousands_of_dead(
    shared_zookeeper: ZooKeeperServer, new_client: MakeClient, own_name: str
) -> None:
    # Given a holder, thousands of waiters, and one more waiter behind them
    ours, folder = new_client(label="ours"), f"/holdfast/{own_name}"
    done, store = partial(bounded, ours), ours._ctx.store
    holder, living = a_claim(own_name), a_claim(own_name)
    held = done(store.join(holder, True, WITHIN_S))
    theirs = shared_zookeeper.client()
    crowd(theirs, folder)
    standing = done(store.join(living, True, WITHIN_S))
    assert isinstance(standing, Waiting)
    assert standing.position == MOST + 1
    # Then the cost of each verb is bounded
    assert isinstance(done(store.join(a_claim(own_name), False, WITHIN_S)), Refused)
    done(store.renew([Renewal(holder, held.fence, 60.0)], WITHIN_S))
    assert isinstance(done(store.turn(living, standing.ticket, WITHIN_S)), Waiting)
    (line,) = done(store.inspect(own_name, WITHIN_S, True), LOOK_S, MOST + REQUESTS)
    assert len(line.claims) >= MOST
    assert done(store.leave(Leave(own_name, holder.id, held.fence), WITHIN_S))
    # And the last waiter is granted once the session has ended
    theirs.stop()
    theirs.close()
    turn = partial(store.turn, living, standing.ticket, WITHIN_S)
    eventually(lambda: isinstance(done(turn()), Held), 20.0)
    assert done(store.leave(Leave(own_name, living.id, standing.ticket), WITHIN_S))
