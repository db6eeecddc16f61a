"""The way of one caller: lost replies, a store that is away, interruptions, failures."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.guard.lease import DutyLease
from holdfast.testing.conformance.struck import FOREVER
from tests.faced import At, behind


@pytest.mark.parametrize("verb", ["read", "begin", "finish"])
@pytest.mark.parametrize("how", ["down", "lost"])
async def test_a_request_or_reply_that_is_lost_changes_nothing(at: At, verb: str, how: str) -> None:
    guard, gate = at.gated()
    getattr(gate, how)[verb] = 2
    assert await guard.get(at.source.compute) == await at.guard().get(at.source.compute) == 0
    assert at.source.asked == 1
    assert (await guard.inspect()).owner == ""
    assert (await guard.stats()).refused == 0


async def test_a_refresh_lease_is_valid_for_at_most_its_length(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases: list[DutyLease] = []

    def note(*args: Any) -> DutyLease:
        leases.append(DutyLease(*args))
        return leases[-1]

    async def back() -> None:
        """Set the clock of the store back between the request and its repetition."""
        at.pass_(-3600)

    monkeypatch.setattr("holdfast.core.guard.refresh.DutyLease", note)
    guard, gate = at.gated(lease=5)
    gate.after["begin"] = back
    gate.lost["begin"] = 1
    assert await guard.get(at.source.compute) == 0
    assert leases.pop().deadline < guard._ctx.now() + 5


async def test_a_value_that_can_not_be_stored_is_still_for_its_caller(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    guard, gate = at.gated(lease=0.5)
    gate.down["finish"] = FOREVER
    assert await guard.get(at.source.compute) == 0
    assert "not stored" in caplog.text


async def test_an_interrupted_computation_releases_the_refresh_lease(sync: At) -> None:
    async def interrupted() -> int:
        raise KeyboardInterrupt

    guard = sync.guard(lease=3600)
    with pytest.raises(KeyboardInterrupt):
        await guard.get(interrupted)
    assert guard._ctx.keeper.pending() == 0  # the lease isn't renewed, either
    assert await guard.get(sync.source.compute, timeout=5) == 0


def test_a_waiting_caller_can_be_interrupted_by_a_signal() -> None:
    space = f"memory://{os.urandom(8).hex()}"
    inside, go = threading.Event(), threading.Event()

    class Stop(Exception):
        pass

    def compute() -> bool:
        inside.set()
        return go.wait()

    def handler(*_: object) -> None:
        raise Stop

    # Given a caller that waits for another's value
    with Client(space) as ours, Client(space) as theirs:
        slow = threading.Thread(target=theirs.guard("g", ttl=60).get, args=(compute,))
        slow.start()
        inside.wait()
        guard = ours.guard("g", ttl=60)
        # When a signal handler raises, then it ends
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with pytest.raises(Stop):
                guard.get(lambda: 1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        go.set()
        slow.join()
        assert guard.get(lambda: 1) is True
        assert guard._shared.flights == {}


async def test_a_cancelled_caller_leaves_nothing_behind(aio: At) -> None:
    for verb in ("read", "begin", "finish"):
        for place in ("before", "after"):
            guard, gate = aio.gated(lease=3600)
            reached = asyncio.Event()

            async def hold(reached: asyncio.Event = reached) -> None:
                reached.set()
                await asyncio.sleep(3600)

            # Given a caller at one of its steps, when it is cancelled
            getattr(gate, place)[verb] = hold
            task = asyncio.create_task(guard.get(aio.source.compute))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # Then the next caller needn't wait, and no flight is left
            assert await guard.get(aio.source.compute, timeout=5) == 0
            assert guard._shared.flights == {}
            await guard.invalidate()


async def test_a_background_refresh_that_fails_is_logged_and_tried_again(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    guard, source = at.guard(ttl=10, stale=60, refresh="background"), at.source
    await guard.get(source.compute)
    at.pass_(11)
    with caplog.at_level(logging.ERROR, "holdfast"):
        assert await guard.get(source.fail) == 0
        await at.until(lambda: "in the background failed" in caplog.text, "logged")
    source.version = 1
    await at.until(lambda: not guard._shared.refreshing, "over")
    await at.face.sleep(0.11)  # the client remembers for a moment that another one computes
    assert await guard.get(source.compute) == 0
    await at.until(lambda: source.asked == 2 and not guard._shared.refreshing, "refreshed")
    assert await guard.get(source.compute) == 1


async def test_a_client_closed_during_a_computation_releases_the_refresh_lease(at: At) -> None:
    guard, other, source = at.guard(lease=3600), at.guard(), at.source
    actor = at.start(guard.get, source.slow)
    await source.begun.wait()
    await at._clients[0].close()
    assert await other.get(source.compute, timeout=5) == 0
    source.version = 1
    source.go.set()
    assert await actor.result() == 1
    assert await other.get(source.slow) == 0


def test_the_child_of_a_fork_stores_nothing_for_its_parent() -> None:
    with Client(f"memory://{os.urandom(8).hex()}") as client:
        guard, gate = client.guard("g", ttl=60), behind(client, "guards")
        parent, (told, tell) = os.getpid(), os.pipe()

        def compute() -> str:
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
                return "parent"
            return "child"

        try:
            value = guard.get(compute)
            if value == "child":
                os.write(tell, b"asked" if gate.calls["finish"] else b"refused")
        finally:
            if os.getpid() != parent:
                os._exit(0)
        assert value == "parent"
        assert os.read(told, 100) == b"refused"
        assert guard.get(compute) == "parent"


async def test_a_refresh_lease_is_renewed_when_a_third_of_it_has_passed(at: At) -> None:
    guard, gate = at.gated(lease=0.9)
    begun = guard._ctx.now()
    computing = at.start(guard.get, at.source.slow)
    await at.until(lambda: gate.calls["prolong"] > 0, "it is renewed")
    assert guard._ctx.now() - begun > 0.25
    at.source.go.set()
    assert await computing.result() == 0


async def test_a_refresh_lease_is_no_longer_renewed_after_a_cancellation_or_a_value(
    aio: At,
) -> None:
    guard, source = aio.guard(lease=3600), aio.source
    task = asyncio.create_task(guard.get(source.slow))
    await source.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert guard._ctx.keeper.pending() == 0
    record = await guard.inspect()
    assert (record.owner, record.failures) == ("", 0)
    assert await guard.get(source.compute) == 0
    assert guard._ctx.keeper.pending() == 0
