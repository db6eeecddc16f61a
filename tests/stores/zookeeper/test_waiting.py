"""Waiting: the watches of waiters, attempts that meet each other, holds that the client ends."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress

import pytest
from kazoo.client import KazooClient

from holdfast import Client, StoreUnavailable
from holdfast.core.model import Claim, Held, Keep, Kind, Refused, Spec, Waiting
from holdfast.runtime.blocking import run_sync
from holdfast.stores.zookeeper.names import KAZOO, beginning
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.servers.zookeeper import ZooKeeperServer, ask
from tests.stores.zookeeper.conftest import MakeClient, eventually, expire


def watched(server: ZooKeeperServer, path: str) -> list[int]:
    """The number of sessions that watch each node of this line, in the order of the nodes."""
    said = ask(server.host, server.port, "wchp")
    found: dict[str, int] = {}
    node = ""
    for line in said.splitlines():
        if line.startswith("/"):
            node = line
            found[node] = 0
        elif re.match(r"\s+0x", line):
            found[node] += 1
    mine = {node: count for node, count in found.items() if node.startswith(path)}
    return [mine[one] for one in sorted(mine, key=lambda one: one[-10:])]


def test_each_waiter_watches_its_predecessor_alone(
    shared_zookeeper: ZooKeeperServer, new_client: MakeClient, own_name: str
) -> None:
    clients = [new_client() for _ in range(5)]
    threads = []
    with clients[0].lock(own_name):
        for count, client in enumerate(clients[1:], 2):
            wait = threading.Thread(target=lambda c=client: c.lock(own_name).acquire().release())
            threads.append(wait)
            wait.start()
            eventually(lambda many=count: _claims(clients[0], own_name) == many)
        # Wait until each waiter has asked again
        time.sleep(1.5)
        eventually(lambda: watched(shared_zookeeper, f"/holdfast/{own_name}") == [1, 1, 1, 1])
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def _claims(client: Client, name: str) -> int:
    lines = client.inspect(name, exact=True)
    return len(lines[0].claims) if lines else 0


def test_a_release_reaches_the_next_one_without_its_asking(
    new_client: MakeClient, own_name: str
) -> None:
    lag.watch()
    client, rival = new_client(), new_client()
    took: list[float] = []
    for _ in range(5):
        hold = client.lock(own_name).acquire()
        served: list[float] = []

        def wait(served: list[float] = served) -> None:
            with rival.lock(own_name, timeout=20):
                served.append(time.monotonic())

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: _claims(client, own_name) == 2)
        time.sleep(0.1)
        begun = time.monotonic()
        hold.release()
        waiter.join(20)
        took.append(served[0] - begun - lag.since(begun))
    assert sorted(took)[2] < 0.25, took  # the server may be late once or twice


def test_many_permits_are_handed_on_at_once_too(
    shared_zookeeper: ZooKeeperServer, new_client: MakeClient, own_name: str
) -> None:
    # Given more holders than a waiter watches one by one, and a waiter for any of their permits
    lag.watch()
    client, rival = new_client(), new_client()
    holds = [client.semaphore(own_name, 12).acquire() for _ in range(12)]
    took: list[float] = []

    def wait(served: list[float]) -> None:
        # If the test fails, the client is closed while this thread still waits.
        with suppress(StoreUnavailable), rival.semaphore(own_name, 12, timeout=20):
            served.append(time.monotonic())

    for _ in range(3):
        served: list[float] = []
        waiter = threading.Thread(target=wait, args=(served,))
        waiter.start()
        eventually(lambda: _claims(client, own_name) == 13)
        # Then the waiter watches the folder, and no single node
        own = rival._ctx.store._own.claims
        eventually(lambda own=own: any(one.armed for one in own.values()))
        assert watched(shared_zookeeper, f"/holdfast/{own_name}/") == []
        begun = time.monotonic()
        holds.pop(5).release()
        waiter.join(20)
        took.append(served[0] - begun - lag.since(begun))
        holds.append(client.semaphore(own_name, 12).acquire())
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
    clients = [new_client() for _ in range(3)]
    for client in clients:
        client.lock(f"{own_name}-warm").acquire().release()
    for _ in range(20):
        start, got = threading.Barrier(3), []

        def attempt(client: Client, start: threading.Barrier, got: list[object]) -> None:
            start.wait()
            got.append(client.lock(own_name).acquire(blocking=False))

        threads = [threading.Thread(target=attempt, args=(one, start, got)) for one in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        held = [one for one in got if one is not None]
        assert len(held) == 1
        held[0].release()  # type: ignore[attr-defined]


def test_an_unrenewed_hold_is_ended_by_its_own_client(
    face: Face, zookeeper_url: str, own_name: str, other: Client
) -> None:
    async def play() -> None:
        client = face.client(zookeeper_url)
        try:
            # Given a session that continues, and holds without or with limited renewal
            for options in ({"ttl": 0.3, "auto_renew": False}, {"ttl": 0.3, "max_hold": 0.5}):
                begun = time.monotonic()
                hold = await client.lock(own_name, **options).acquire()
                # Then the next waiter is granted soon after the end of the hold, and not before it
                next_one = await face.outside(lambda: other.lock(own_name, timeout=20).acquire())
                took = time.monotonic() - begun
                assert hold.remaining() == 0.0
                assert 0.29 < took < 3.0 + lag.since(begun)
                assert await hold.release() is False
                assert next_one.release() is True
        finally:
            await client.close()

    face.run(play, 60.0)


def test_a_join_that_is_sent_again_enters_once(new_client: MakeClient, own_name: str) -> None:
    client = new_client()
    store = client._ctx.store
    claim = Claim("b" * 32, Spec(own_name, Kind.LOCK, 1, 1, 5.0, "me"))
    first = run_sync(store.join(claim, True, 5.0))
    assert isinstance(first, Held)
    # Given a create whose reply was lost
    mine = store._own.claims[claim.id]
    mine.path = mine.node = ""
    again = run_sync(store.join(claim, True, 5.0))
    assert isinstance(again, Held)
    assert again.fence == first.fence
    assert _claims(client, own_name) == 1
    # And an attempt behind it is refused, and refused again when it is repeated
    late = Claim("c" * 32, claim.spec)
    for _ in range(2):
        assert isinstance(run_sync(store.join(late, False, 5.0)), Refused)
    assert _claims(client, own_name) == 1


def test_a_waiter_whose_session_is_lost_enters_the_line_again(
    new_client: MakeClient, short_url: str, own_name: str
) -> None:
    client, rival = new_client(short_url), new_client()
    with rival.lock(own_name):
        fences: list[int] = []

        def wait() -> None:
            with client.lock(own_name, timeout=30) as hold:
                fences.append(hold.fence)

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: _claims(rival, own_name) == 2)
        before = rival.inspect(own_name)[0].waiters[0].fence
        expire(client)
        eventually(
            lambda: [one.fence > before for one in rival.inspect(own_name)[0].waiters] == [True]
        )
    waiter.join(20)
    assert fences
    assert fences[0] > before


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


def test_a_claim_that_is_being_kept_does_not_expire_meanwhile(
    new_client: MakeClient, own_name: str, other: Client
) -> None:
    store = new_client()._ctx.store
    hold = other.lock(own_name).acquire()
    claim = Claim("d" * 32, Spec(own_name, Kind.LOCK, 1, 1, 5.0, "me"))
    waiting = run_sync(store.join(claim, True, 5.0))
    assert isinstance(waiting, Waiting)
    hold.release()
    # Given a waiter whose TTL expires during its renewal
    store._own.claims[claim.id].expires = store._port.now() + 0.2
    driver = store._port._driver
    real = driver.send

    def late(request: object, answer: object) -> None:
        time.sleep(0.3)
        real(request, answer)
        store._on_alarm()

    driver.send = late
    (answer,) = run_sync(store.keep([Keep(claim, waiting.ticket, 5.0)], 10.0))
    driver.send = real
    time.sleep(0.3)
    # Then it doesn't hold without a node
    assert isinstance(answer, Held)
    assert [one.fence for one in other.inspect(own_name)[0].holders] == [answer.fence]
