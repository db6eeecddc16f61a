"""The simple recipe when requests are lost, sessions end, and holders die."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest
from kazoo.client import KazooClient

from holdfast import Client, StoreUnavailable
from holdfast.core.model import Claim, Held, Kind, Leave, Refused, Spec
from holdfast.runtime.blocking import run_sync
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import (
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
    Subject,
    SubjectGone,
)
from tests.stores.zookeeper.conftest import SHORT_S, SIMPLE, MakeClient, claims, eventually, expire
from tests.stores.zookeeper.frames import MULTI, of_kind
from tests.torture.scale import figures, times

#: Seconds that the server may add: it counts sessions in ticks, and may be late itself.
TICKS_S = 2.0


@pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
def test_what_is_lost_on_the_way_leaves_no_node_behind(
    fault: Fault,
    face: Face,
    proxy: Proxy,
    rival: Client,
    kazoo: KazooClient,
    own_name: str,
    path: str,
) -> None:
    async def play() -> None:
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}?session=20&{SIMPLE}")
        fences = []
        try:
            async with client.lock(own_name):
                pass
            for _ in range(times(50, 2)):
                # Given that the create or its reply is lost, and later the release or its reply
                armed = proxy.arm(of_kind(MULTI, having=own_name.encode()), fault)
                hold = await client.lock(own_name).acquire(timeout=20)
                assert hold is not None
                fences.append(hold.fence)
                assert armed.hits == 1
                (line,) = rival.inspect(own_name, exact=True)
                assert [one.fence for one in line.claims] == [hold.fence]
                armed = proxy.arm(of_kind(MULTI, having=own_name.encode()), fault)
                assert await hold.release() is True
                assert armed.hits == 1
        finally:
            await client.close()
        assert fences == sorted(set(fences))

    face.run(play, 100.0)
    # Then no node stays
    assert rival.inspect(own_name) == []
    assert claims(kazoo) == []


def test_a_creation_whose_caller_gave_up_is_undone(
    proxy: Proxy, rival: Client, kazoo: KazooClient, own_name: str, path: str
) -> None:
    with Client(f"zookeeper://127.0.0.1:{proxy.port}?session=20&{SIMPLE}") as client:
        client.lock(own_name).acquire().release()
        # Given a create that the server carries out, and no reply that arrives in time
        armed = proxy.arm(of_kind(MULTI, having=own_name.encode()), RESET_REPLY)
        breaker = threading.Thread(target=lambda: (armed.wait(), proxy.refuse()))
        breaker.start()
        with pytest.raises(StoreUnavailable):
            _until_refused(client, own_name, proxy)
        breaker.join()
        # Then the node is removed once the server is in reach again, though the session continues
        proxy.heal()
        eventually(lambda: rival.inspect(own_name) == [])
        assert claims(kazoo) == []


def _until_refused(ours: Client, name: str, proxy: Proxy) -> None:
    while True:  # as the proxy may have let one more connection pass
        ours.lock(name, timeout=0.3).acquire().release()
        proxy.refuse()


def test_a_join_that_is_sent_again_enters_once(ours: Client, rival: Client, own_name: str) -> None:
    store = ours._ctx.store
    claim = Claim("b" * 32, Spec(own_name, Kind.LOCK, 1, 1, 5.0, "me"))
    first = run_sync(store.join(claim, True, 5.0))
    assert isinstance(first, Held)
    # Given a create whose reply was lost
    mine = store._own.claims[claim.id]
    mine.path = ""
    again = run_sync(store.join(claim, True, 5.0))
    assert isinstance(again, Held)
    assert again.fence == first.fence
    assert isinstance(run_sync(store.join(claim._replace(id="c" * 32), False, 5.0)), Refused)
    assert rival.lock(own_name).acquire(blocking=False) is None
    assert run_sync(store.leave(Leave(own_name, claim.id, first.fence), 5.0)) is True
    rival.lock(own_name).acquire(blocking=False).release()


def test_a_session_that_was_lost_never_holds_again(
    new_client: MakeClient, short_url: str, rival: Client, own_name: str
) -> None:
    client = new_client(f"{short_url}&{SIMPLE}")
    for turn in range(times(20, 1)):
        name = f"{own_name}-{turn}"
        hold = client.lock(name).acquire()
        expire(client)
        with rival.lock(name, timeout=20) as after:
            assert after.fence > hold.fence
            assert hold.wait_lost(10) is not None
            assert hold.release() is False
            after.check()
            assert client.lock(name).acquire(blocking=False) is None


def test_the_next_waiter_waits_no_longer_than_a_session(
    short_url: str, rival: Client, own_name: str
) -> None:
    lag.watch()
    act = "tests.torture.acts:holds"
    url = f"{short_url}&{SIMPLE}"
    waited = []
    for turn in range(times(50, 1)):
        dead, asleep = f"{own_name}-{turn}-dead", f"{own_name}-{turn}-asleep"
        with Subject(act, url, dead) as killed, Subject(act, url, asleep) as stopped:
            # Given two holder processes: one is killed, one is stopped past its session
            fences = [killed.hear(), stopped.hear()]
            begun = time.monotonic()
            killed.signal(signal.SIGKILL)
            stopped.signal(signal.SIGSTOP)
            with rival.lock(dead, timeout=20) as one, rival.lock(asleep, timeout=20) as other:
                waited.append(time.monotonic() - begun)
                assert waited[-1] <= SHORT_S + TICKS_S + lag.since(begun)
                assert one.fence > fences[0]
                assert other.fence > fences[1]
                # Then the stopped one notices the loss, and leaves the next hold alone
                stopped.signal(signal.SIGCONT)
                stopped.say("go on")
                with contextlib.suppress(SubjectGone):  # it could not reach the server in time
                    assert stopped.hear() is False
                one.check()
                other.check()
                lines = rival.inspect(f"{own_name}-{turn}-")
                held = {line.name: [claim.fence for claim in line.claims] for line in lines}
                assert held == {dead: [one.fence], asleep: [other.fence]}
    print(figures("simple: after the holders were killed and stopped", waited))


def test_a_hold_without_renewal_is_ended_by_its_own_client(
    face: Face, zookeeper_url: str, rival: Client, own_name: str
) -> None:
    async def play() -> None:
        client = face.client(f"{zookeeper_url}?{SIMPLE}")
        try:
            begun = time.monotonic()
            hold = await client.lock(own_name, ttl=0.3, auto_renew=False).acquire()
            after = await face.outside(lambda: rival.lock(own_name, timeout=20).acquire())
            assert 0.29 < time.monotonic() - begun < 3.0 + lag.since(begun)
            assert await hold.release() is False
            assert after.release() is True
        finally:
            await client.close()

    lag.watch()
    face.run(play, 60.0)
