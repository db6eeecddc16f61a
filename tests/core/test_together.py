"""Several names in one acquire, also if the store is silent or another client holds one."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdfast import Client, NotHeld, StoreUnavailable
from holdfast.core.ports import DiskFailed
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Fork
from tests.core.flaky import Flaky, behind
from tests.servers.process import until

lag.watch()

NAMES = ("a", "b", "c")


@pytest.fixture
def flaky(client: Client) -> Flaky:
    return behind(client)


def test_without_contention_all_takes_one_request_each_way(client: Client, flaky: Flaky) -> None:
    with client.all(*NAMES):
        assert flaky.calls == {"join_free": 1}
    assert flaky.calls == {"join_free": 1, "leave_all": 1}
    # And one name alone goes as ever
    flaky.calls.clear()
    with client.all("a"):
        assert flaky.calls == {"join": 1}


def test_more_than_fit_into_one_request_go_one_by_one_and_leave_in_several(
    client: Client, flaky: Flaky
) -> None:
    flaky.batch_max = 2
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
        # And one that is abandoned leaves it as well
        both = client.all(inner, "b").acquire()
        both._abandon()
        both._abandon()
        outer.check()
        assert client.lock("b").acquire(timeout=5).release()
    assert not client.inspect()


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
    until(lambda: not other.inspect(), "nothing is left")
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
    until(lambda: not other.inspect(), "nothing is left")
    assert flaky.calls["leave"] >= len(NAMES)


def test_a_lease_counts_from_before_its_request_was_sent(client: Client, flaky: Flaky) -> None:
    join_free = flaky.join_free

    async def late(claims: Any, within: float) -> Any:
        held = await join_free(claims, within)
        time.sleep(0.3)
        return held

    flaky.join_free = late
    with client.all(*[client.lock(name, ttl=10.0) for name in NAMES]) as hold:
        assert hold.remaining() < 9.7


def test_a_reentrant_hold_of_another_thread_fails_and_others_are_freed(client: Client) -> None:
    held = []
    both = client.all(client.lock("a", reentrant=True), "b")
    thread = threading.Thread(target=lambda: held.append(both.acquire()))
    thread.start()
    thread.join()
    with pytest.raises(NotHeld, match="another thread"):
        held[0].release()
    assert [line.name for line in client.inspect()] == ["a"]


@pytest.mark.parametrize("failure", [StoreUnavailable, DiskFailed])
def test_a_release_without_a_reply_is_repeated_unless_that_is_useless(
    client: Client, flaky: Flaky, failure: type[StoreUnavailable]
) -> None:
    leave_all, sent = flaky.leave_all, list[Any]()

    async def lost(leaves: Any, within: float) -> Any:
        sent.append(await leave_all(leaves, within))
        if len(sent) == 1:
            raise failure("planted")
        return sent[-1]

    holds = client.all(*NAMES).acquire()
    flaky.leave_all = lost
    if failure is DiskFailed:
        with pytest.raises(DiskFailed, match="planted"):
            holds.release()
    else:
        assert holds.release() is True
    # Each repetition finds no claim, and no hold counts as lost
    assert sent == [[True] * 3, [False] * 3][: 1 + (failure is StoreUnavailable)]
    assert [hold.lost for hold in holds._holds] == [None] * 3


def test_the_child_of_a_fork_releases_none_of_the_names(client: Client, flaky: Flaky) -> None:
    holds = client.all(*NAMES).acquire()
    with Fork(lambda: [holds.release(), flaky.calls["leave_all"]]) as child:
        assert child.result() == [False, 0]
    assert holds.release()
