"""Requests and replies that are lost, sessions that end, and claims that are sent again."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.core.model import Claim, Held, Kind, Leave, Refused, Spec
from holdfast.runtime.blocking import run_sync
from holdfast.stores.zookeeper.requests import Children, Get, Look, Sync
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import DROP_REPLY, DROP_REQUEST, RESET_REPLY, RESET_REQUEST, Proxy
from tests.stores.zookeeper.conftest import SHORT_S, MakeClient, eventually, expire, many, play
from tests.stores.zookeeper.frames import CREATE, MULTI, of_kind
from tests.torture.scale import times

lag.watch()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_that_is_not_to_what_was_asked_ends_the_connection_not_the_session(
    face: Face, proxy: Proxy, own_name: str
) -> None:
    async def act(client: AsyncClient) -> None:
        async with client.lock(f"{own_name}:kept") as kept:
            # Given a reply that is dropped, so that the next one arrives in its place
            armed = proxy.arm(of_kind(CREATE, having=own_name.encode()), DROP_REPLY)
            hold = await client.lock(own_name).acquire(timeout=20)
            # Then no request gets a reply that isn't its own, and other holds stay valid
            assert hold is not None
            assert armed.hits == 1
            (line,) = await client.inspect(own_name, exact=True)
            assert [one.fence for one in line.claims] == [hold.fence]
            assert await hold.release() is True
            assert await kept.extend() > 10

    play(face, f"zookeeper://127.0.0.1:{proxy.port}", act, 60.0)


def test_a_server_that_takes_a_connection_and_never_answers_is_given_up_soon(
    proxy: Proxy, proxied: str, own_name: str
) -> None:
    # Given a server that never reads the first message of a connection
    armed = proxy.arm(lambda message: message[4:8] == bytes(4), DROP_REQUEST)
    begun = time.monotonic()
    with Client(proxied) as client:
        # Then the client connects again long before a session would have expired
        with client.lock(own_name, timeout=30):
            took = time.monotonic() - begun
        assert armed.hits == 1
    assert took < 5.0 + lag.since(begun)


def test_a_renewal_whose_answer_is_lost_is_sent_again_in_time(
    face: Face, proxy: Proxy, own_name: str
) -> None:
    async def act(client: AsyncClient) -> None:
        # Given a hold that is renewed often
        async with client.lock(own_name, ttl=4.5) as hold:
            for fault in times(50, 1) * (RESET_REPLY, RESET_REQUEST):
                # When a renewal or its reply is lost, then the hold stays valid
                armed = proxy.arm(of_kind(MULTI), fault)
                await face.outside(armed.wait)
                await face.sleep(0.3)
                hold.check()
            assert await hold.extend() > 1

    play(face, f"zookeeper://127.0.0.1:{proxy.port}?session=10", act, 200.0)


def test_a_release_without_a_reply_is_carried_out_later(
    face: Face, proxy: Proxy, own_name: str, other: Client
) -> None:
    async def act(client: AsyncClient) -> None:
        # Given a hold with a short ttl, and a session that continues for long
        hold = await client.lock(own_name, ttl=0.3).acquire()
        proxy.refuse()
        with pytest.raises(StoreUnavailable):
            await hold.release()
        # When the server is back after the release call has given up
        await face.sleep(2.0)
        proxy.heal()
        # Then the name is free nevertheless
        await face.outside(lambda: eventually(lambda: other.inspect(own_name) == []))

    play(face, f"zookeeper://127.0.0.1:{proxy.port}", act, 60.0)


def test_answered_reads_and_pings_extend_no_lease(
    face: Face, short_url: str, own_name: str
) -> None:
    async def act(client: Any) -> None:
        hold = await client.lock(own_name).acquire()
        begun = time.monotonic()
        await hold.extend()
        # Given an ensemble that answers all but writes, as a follower does when it is cut off
        driver = client._ctx.store._port._driver
        real = driver.send
        driver.send = lambda request, answer: (
            real(request, answer) if isinstance(request, Get | Children | Look | Sync) else None
        )
        end = begun + 2 * SHORT_S
        while time.monotonic() < end and hold.lost is None:
            await face.sleep(0.05)
        # Then the hold has ended before the session could, counted from the last write
        assert hold.lost is not None
        assert time.monotonic() - begun <= SHORT_S + 0.5 + lag.since(begun)
        driver.send = real

    play(face, short_url, act, 60.0)


def test_a_session_that_was_lost_never_holds_again(
    face: Face, recipe: str, short_url: str, own_name: str, peer: Client
) -> None:
    async def act(client: AsyncClient) -> None:
        for turn in range(times(50, 1)):
            # Given a hold whose session the server ends
            told: list[str] = []
            name = f"{own_name}:{turn}"
            lock = client.lock(name, on_lost=lambda _, why, told=told: told.append(str(why)))
            hold = await lock.acquire()
            await face.outside(lambda: expire(client))
            # When the client has a new session
            with peer.lock(name, timeout=20) as next_one:
                assert next_one.fence > hold.fence
                again = await client.lock(f"{name}:new").acquire(timeout=20)
                assert again is not None
                # Then the loss is reported once, and the release leaves the next hold alone
                assert await hold.wait_lost(10) is not None
                # A new session that took two seconds comes after the deadline
                why = str(hold.lost)
                assert why in ("session lost", "store unreachable until the deadline"), why
                assert await hold.release() is False
                next_one.check()
                assert await client.lock(name).acquire(blocking=False) is None
                assert await again.release() is True
            await face.outside(lambda told=told, why=why: eventually(lambda: told == [why]))

    play(face, f"{short_url}&{recipe}", act, 100.0)


def test_a_join_that_is_sent_again_enters_once(peer: Client, own_name: str) -> None:
    store = peer._ctx.store
    claim = Claim("b" * 32, Spec(own_name, Kind.LOCK, 1, 1, 5.0, "me"))
    first = run_sync(store.join(claim, True, 5.0))
    assert isinstance(first, Held)
    # Given a create whose reply was lost
    mine = store._own.claims[claim.id]
    mine.path = mine.node = ""
    again = run_sync(store.join(claim, True, 5.0))
    assert isinstance(again, Held)
    assert again.fence == first.fence
    assert many(peer, own_name) == 1
    # And an attempt behind it is refused, and refused again when it is repeated
    late = Claim("c" * 32, claim.spec)
    for _ in range(2):
        assert isinstance(run_sync(store.join(late, False, 5.0)), Refused)
    assert many(peer, own_name) == 1
    assert run_sync(store.leave(Leave(own_name, claim.id, first.fence), 5.0)) is True
    peer.lock(own_name).acquire(blocking=False).release()


def test_a_waiter_whose_session_is_lost_enters_the_line_again(
    new_client: MakeClient, short_url: str, other: Client, own_name: str
) -> None:
    client = new_client(short_url)
    fences: list[int] = []

    def wait() -> None:
        with client.lock(own_name, timeout=30) as hold:
            fences.append(hold.fence)

    def places() -> list[int]:
        return [one.fence for one in other.inspect(own_name)[0].waiters]

    with other.lock(own_name):
        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: many(other, own_name) == 2)
        (before,) = places()
        expire(client)
        eventually(lambda: [one > before for one in places()] == [True])
    waiter.join(20)
    assert fences[0] > before
