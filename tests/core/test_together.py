"""Several names in one acquire, also if the store is silent or another client holds one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast import AsyncClient, Client, Loss, NotHeld, StoreUnavailable
from holdfast.core.model import Claim
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from tests.core.flaky import Flaky, behind

lag.watch()

NAMES = ("a", "b", "c")


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory://{request.node.name}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as one:
        yield one


@pytest.fixture
def other(url: str) -> Iterator[Client]:
    with Client(url) as one:
        yield one


@pytest.fixture
def flaky(client: Client) -> Flaky:
    return behind(client)


def test_without_contention_all_takes_one_request_each_way(client: Client, flaky: Flaky) -> None:
    with client.all(*NAMES):
        assert flaky.calls == {"join_free": 1}
    assert flaky.calls == {"join_free": 1, "leave_all": 1}


def test_one_name_alone_goes_as_ever(client: Client, flaky: Flaky) -> None:
    with client.all("a"):
        assert flaky.calls == {"join": 1}


def test_more_than_fit_into_one_request_go_one_by_one_and_leave_in_several(
    client: Client, flaky: Flaky
) -> None:
    flaky.keep_batch = 2
    with client.all(*NAMES):
        assert flaky.calls == {"join": 3}
    assert flaky.calls["leave_all"] == 2
    assert not client.inspect()


def test_what_we_are_inside_of_is_counted_and_not_joined(client: Client, flaky: Flaky) -> None:
    inner = client.lock("a", reentrant=True)
    with inner as outer:
        flaky.calls.clear()
        with client.all(inner, "b") as both:
            assert flaky.calls == {"join": 1}
            assert both.fences["a"] == outer.fence
        outer.check()
    assert not client.inspect()


def test_an_abandoned_one_leaves_what_we_were_inside_of_before(client: Client) -> None:
    inner = client.lock("a", reentrant=True)
    with inner as outer:
        both = client.all(inner, "b").acquire()
        both._abandon()
        both._abandon()
        outer.check()
        assert client.lock("b").acquire(timeout=5).release()
    assert not client.inspect()


def test_after_a_lost_reply_the_names_are_acquired_one_by_one(
    client: Client, flaky: Flaky, other: Client
) -> None:
    # Given
    flaky.mute = {"join_free"}
    # When
    hold = client.all(*NAMES).acquire(timeout=5)
    # Then
    assert hold is not None
    assert flaky.calls == {"join_free": 1, "leave_all": 1, "join": 3}
    for name, fence in hold.fences.items():
        assert [one.fence for one in other.inspect(name, exact=True)[0].claims] == [fence]
    assert hold.release()


def test_a_silent_store_is_not_reported_as_busy_and_the_renewer_cleans_up(
    client: Client, flaky: Flaky, other: Client
) -> None:
    # Given a store whose replies are all lost
    flaky.mute = {"join_free", "leave_all", "leave", "join"}
    begun = boottime()
    with pytest.raises(StoreUnavailable):
        client.all(*NAMES).acquire(timeout=0.3)
    assert boottime() - begun < 0.3 + 0.25 + lag.since(begun)
    # When the store replies again, then nothing is left
    flaky.mend()
    end = time.monotonic() + 10
    while other.inspect():
        assert time.monotonic() < end
        time.sleep(0.01)
    # And the same after requests that did not arrive
    flaky.cut()
    with pytest.raises(StoreUnavailable):
        client.all(*NAMES).acquire(blocking=False)
    flaky.mend()
    with other.all(*NAMES, timeout=5):
        pass


def test_the_renewer_continues_a_failed_undo(client: Client, flaky: Flaky, other: Client) -> None:
    # Given a lost reply, and a withdrawal that doesn't arrive
    flaky.mute, flaky.down = {"join_free"}, {"leave_all"}
    with pytest.raises(StoreUnavailable):
        client.all(*NAMES).acquire(blocking=False)
    # Then the renewer withdraws each of them
    end = time.monotonic() + 10
    while other.inspect():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert flaky.calls["leave"] >= len(NAMES)


def test_a_late_copy_finds_a_tombstone_and_enters_nothing(client: Client, flaky: Flaky) -> None:
    # Given a request that is on its way for a long time
    late: list[list[Claim]] = []

    async def on_its_way(claims, within):  # type: ignore[no-untyped-def]
        late.append(claims)
        raise StoreUnavailable("planted: no answer")

    flaky.join_free = on_its_way  # type: ignore[method-assign]
    # When all names were acquired by other requests, and released
    with client.all(*NAMES, timeout=5):
        pass
    # Then the late request is granted nothing
    assert run_sync(flaky.store.join_free(late[0], 1.0)) is None
    assert not client.inspect()


def test_a_lease_counts_from_before_its_request_was_sent(url: str, client: Client) -> None:
    store = client._ctx.store
    join_free = store.join_free

    late_by = 0.3

    async def late(claims, within):  # type: ignore[no-untyped-def]
        held = await join_free(claims, within)
        time.sleep(late_by)
        return held

    store.join_free = late  # type: ignore[method-assign]
    locks = [client.lock(name, ttl=10.0) for name in NAMES]
    with client.all(*locks) as hold:
        assert hold.remaining() < 9.7
    # And a reply that arrives after the lease has ended doesn't count
    late_by = 1.6
    quick = [client.lock(name, ttl=1.5, auto_renew=False) for name in NAMES]
    hold = client.all(*quick).acquire(timeout=5)
    assert hold is not None
    assert hold.remaining() > 0
    hold.check()
    hold.release()


def test_a_release_that_is_not_answered_is_repeated_and_true(
    client: Client, flaky: Flaky, other: Client
) -> None:
    hold = client.all(*NAMES).acquire()
    # Given that the reply for one of the names is lost the first time
    flaky.broken = {"b"}
    real = flaky.leave_all

    async def mended(leaves, within):  # type: ignore[no-untyped-def]
        answers = await real(leaves, within)
        flaky.broken = set()
        return answers

    flaky.leave_all = mended  # type: ignore[method-assign]
    assert hold.release()
    assert flaky.calls["leave_all"] == 2
    assert not other.inspect()


def test_a_release_without_a_reply_raises_and_takes_effect_later(
    client: Client, flaky: Flaky, other: Client
) -> None:
    locks = [client.lock(name, ttl=1.0, auto_renew=False) for name in NAMES]
    hold = client.all(*locks).acquire()
    flaky.cut()
    begun = boottime()
    with pytest.raises(StoreUnavailable):
        hold.release()
    assert boottime() - begun < 1.6 + lag.since(begun)
    flaky.mend()
    assert other.all(*NAMES).acquire(timeout=5)


def test_one_that_was_broken_makes_the_release_false(client: Client, other: Client) -> None:
    hold = client.all(*NAMES).acquire()
    assert other.break_("b", hold.fences["b"])
    assert hold.release() is False
    assert hold.lost is Loss.BROKEN


def test_a_reentrant_hold_of_another_thread_fails_and_others_are_freed(
    client: Client,
) -> None:
    held = []

    def take() -> None:
        held.append(client.all(client.lock("a", reentrant=True), "b").acquire())

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    with pytest.raises(NotHeld, match="another thread"):
        held[0].release()
    assert [line.name for line in client.inspect()] == ["a"]


def test_a_cancelled_one_leaves_nothing(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            store = client._ctx.store
            join_free = store.join_free

            async def slow(claims, within):  # type: ignore[no-untyped-def]
                held = await join_free(claims, within)
                await asyncio.sleep(5)
                return held

            store.join_free = slow  # type: ignore[method-assign]
            task = asyncio.ensure_future(client.all(*NAMES).acquire())
            await asyncio.sleep(0.05)
            assert len(await client.inspect()) == 3
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert not await client.inspect()

    asyncio.run(main())
