"""Requests and replies that are lost, and connections that are cut between the two."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.stores.zookeeper.requests import Children, Get, Look, Sync
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
)
from tests.stores.zookeeper.conftest import SHORT_S, eventually, expire
from tests.stores.zookeeper.frames import CREATE, DELETE, LIST, MULTI, of_kind
from tests.torture.scale import times

FAULTS = {
    "cut before the request": RESET_REQUEST,
    "cut before the reply": RESET_REPLY,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("kind", [CREATE, LIST, DELETE], ids=["create", "list", "delete"])
def test_what_is_lost_on_the_way_leaves_no_node_behind(
    fault: Fault, kind: int, face: Face, proxy: Proxy, other: Client, own_name: str
) -> None:
    async def play() -> None:
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}?session=20")
        fences = []
        try:
            for turn in range(2):
                async with client.lock(f"{own_name}:{turn}"):
                    pass  # so that its folder is there
            for turn in range(times(50, 2)):
                # Given a lock, and a request for it that is lost, or whose reply is lost
                armed = proxy.arm(of_kind(kind, having=own_name.encode()), fault)
                hold = await client.lock(f"{own_name}:{turn % 2}").acquire(timeout=20)
                assert hold is not None
                fences.append(hold.fence)
                # Then only the holder has a node there
                (line,) = other.inspect(f"{own_name}:{turn % 2}", exact=True)
                if line.claims[0].fence != hold.fence:
                    raise AssertionError(f"{hold} stands behind another: {line}")
                assert await hold.release() is True
                assert armed.hits == 1
        finally:
            await client.close()
        assert fences == sorted(set(fences))

    face.run(play, 100.0)
    # And no node stays
    assert other.inspect(own_name) == []


def test_an_abandoned_create_with_a_lost_reply_blocks_no_client(
    proxy: Proxy, other: Client, own_name: str
) -> None:
    lag.watch()
    with Client(f"zookeeper://127.0.0.1:{proxy.port}?session={SHORT_S}") as client:
        for turn in range(times(50, 2)):
            client.lock(f"{own_name}-{turn}", timeout=20).acquire().release()
            # Given a create that the server carries out, and a connection that breaks then
            name = f"{own_name}-{turn}"
            armed = proxy.arm(of_kind(CREATE, having=name.encode()), RESET_REPLY)
            breaker = threading.Thread(target=lambda: (armed.wait(), proxy.refuse()))  # noqa: B023
            breaker.start()
            with pytest.raises(StoreUnavailable):
                _until_refused(client, name, proxy)
            breaker.join()
            assert armed.hits == 1
            proxy.heal()
            # Then another client is blocked by the node for no longer than a session
            begun = time.monotonic()
            with other.lock(name, timeout=20):
                took = time.monotonic() - begun
            assert took < SHORT_S + 3.0 + lag.since(begun)


def _until_refused(client: Client, name: str, proxy: Proxy) -> None:
    while True:  # as the proxy may have let one more connection pass
        client.lock(name, timeout=0.3).acquire().release()
        proxy.refuse()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_that_is_not_to_what_was_asked_ends_the_connection_not_the_session(
    face: Face, proxy: Proxy, own_name: str
) -> None:
    async def play() -> None:
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}")
        try:
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
        finally:
            await client.close()

    face.run(play, 60.0)


def test_a_server_that_takes_a_connection_and_never_answers_is_given_up_soon(
    proxy: Proxy, own_name: str
) -> None:
    # Given a server that never reads the first message of a connection
    lag.watch()
    armed = proxy.arm(lambda message: message[4:8] == bytes(4), DROP_REQUEST)
    begun = time.monotonic()
    with Client(f"zookeeper://127.0.0.1:{proxy.port}?session=20") as client:
        # Then the client connects again long before a session would have expired
        with client.lock(own_name, timeout=30):
            took = time.monotonic() - begun
        assert armed.hits == 1
    assert took < 5.0 + lag.since(begun)


def test_a_renewal_whose_answer_is_lost_is_sent_again_in_time(
    face: Face, proxy: Proxy, own_name: str
) -> None:
    async def play() -> None:
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}?session=10")
        try:
            # Given a hold that is renewed often
            async with client.lock(own_name, ttl=4.5) as hold:
                for _ in range(times(50, 1)):
                    for fault in (RESET_REPLY, RESET_REQUEST):
                        # When a renewal or its reply is lost, then the hold stays valid
                        armed = proxy.arm(of_kind(MULTI), fault)
                        await face.outside(armed.wait)
                        await face.sleep(0.3)
                        hold.check()
                assert await hold.extend() > 1
        finally:
            await client.close()

    face.run(play, 200.0)


def test_a_release_without_a_reply_is_carried_out_later(
    face: Face, proxy: Proxy, own_name: str, other: Client
) -> None:
    async def play() -> None:
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}")
        try:
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
        finally:
            await client.close()

    face.run(play, 60.0)


def test_answered_reads_and_pings_extend_no_lease(
    face: Face, short_url: str, own_name: str
) -> None:
    async def play() -> None:
        client = face.client(short_url)
        try:
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
        finally:
            await client.close()

    face.run(play, 60.0)


def test_a_session_that_was_lost_never_holds_again(
    face: Face, short_url: str, own_name: str, other: Client
) -> None:
    async def play() -> None:
        client = face.client(short_url)
        try:
            for turn in range(times(50, 2)):
                # Given a hold whose session the server ends
                told: list[str] = []
                name = f"{own_name}:{turn}"
                lock = client.lock(name, on_lost=lambda _, why, told=told: told.append(str(why)))
                hold = await lock.acquire()
                await face.outside(lambda: expire(client))
                # When the client has a new session
                with other.lock(name, timeout=20) as next_one:
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
                    assert await again.release() is True
                await face.outside(lambda told=told, why=why: eventually(lambda: told == [why]))
        finally:
            await client.close()

    face.run(play, 100.0)
