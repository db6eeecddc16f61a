"""The way of one caller: lost replies, a store that is away, interruptions, failures."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import Any

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.core.guard.lease import DutyLease
from holdfast.core.guard.model import EntryState
from tests.guard.conftest import At, Run, Source
from tests.guard.gated import behind


@pytest.mark.parametrize("verb", ["read", "begin", "finish"])
@pytest.mark.parametrize("how", ["down", "mute"])
def test_a_request_or_reply_that_is_lost_changes_nothing(run: Run, verb: str, how: str) -> None:
    async def case(at: At) -> None:
        guard, gate = at.gated()
        other, source = at.guard(), Source()
        getattr(gate, how)[verb] = 2
        assert await guard.get(source.compute) == 0
        assert await other.get(source.compute) == 0
        assert source.asked == 1
        assert (await other.inspect()).owner == ""
        assert (await guard.stats()).refused == 0

    run(case)


def test_a_refresh_lease_is_valid_for_at_most_its_length(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases: list[DutyLease] = []

    def note(*args: Any) -> DutyLease:
        leases.append(DutyLease(*args))
        return leases[-1]

    monkeypatch.setattr("holdfast.core.guard.refresh.DutyLease", note)

    async def case(at: At) -> None:
        guard, gate = at.gated(lease=5)

        async def back() -> None:
            """Set the clock of the store back between the request and its repetition."""
            at.pass_(-3600)

        gate.after["begin"] = back
        gate.mute["begin"] = 1
        assert await guard.get(Source().compute) == 0
        assert leases.pop().deadline < guard._ctx.now() + 5

    run(case)


def test_an_invalidation_whose_reply_is_lost_is_carried_out(run: Run) -> None:
    async def case(at: At) -> None:
        guard, gate = at.gated()
        source = Source()
        await guard.get(source.compute)
        gate.mute["invalidate"] = 2
        await guard.invalidate()
        assert (await guard.inspect()).state is EntryState.MISSING

    run(case)


def test_a_value_that_can_not_be_stored_is_still_for_its_caller(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(at: At) -> None:
        guard, gate = at.gated(lease=0.5)
        source = Source()
        gate.down["finish"] = 10**6
        assert await guard.get(source.compute) == 0
        assert "not stored" in caplog.text

    run(case)


def test_without_the_store_a_value_is_computed_where_that_is_wanted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.guard.refresh.SILENCE_S", 0.2)
    monkeypatch.setattr("holdfast.core.guard.refresh.DOWN_S", 0.1)

    async def case(at: At) -> None:
        client = at.client()
        gate = behind(client)
        strict, lax = client.guard("g", ttl=60), client.guard("g", ttl=60, on_store_error="compute")
        source = Source()
        for verb in ("read", "begin"):
            gate.down[verb] = 10**6
            with pytest.raises(StoreUnavailable, match="planted"):
                await strict.get(source.compute)
            assert await lax.get(source.compute) == 0
            gate.down[verb] = 0
        assert source.asked == 2

    run(case)


def test_an_interrupted_computation_releases_the_refresh_lease() -> None:
    """Given a computation, when Ctrl-C interrupts it, then the next caller needn't wait."""
    with Client(f"memory://{os.urandom(8).hex()}") as client:
        guard = client.guard("g", ttl=60, lease=3600)

        def interrupted() -> int:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            guard.get(interrupted)
        assert guard.get(lambda: 2, timeout=5) == 2


def test_a_waiting_caller_can_be_interrupted_by_a_signal() -> None:
    """Given a caller that waits for another's value, when a signal handler raises, then it ends."""
    space = f"memory://{os.urandom(8).hex()}"
    with Client(space) as ours, Client(space) as theirs:
        go = threading.Event()
        slow = threading.Thread(target=lambda: theirs.guard("g", ttl=60).get(go.wait))
        slow.start()
        guard = ours.guard("g", ttl=60)
        while not guard.inspect().owner:
            time.sleep(0.005)

        class Stop(Exception):
            pass

        def handler(*_: object) -> None:
            raise Stop

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


def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    """Given a caller at any of its steps, when it is cancelled, then nothing is left behind.

    The next caller needn't wait, and no flight is left.
    """

    async def main() -> None:
        async with AsyncClient(f"memory://{os.urandom(8).hex()}") as client:
            gate = behind(client)
            for verb in ("read", "begin", "finish"):
                for place in (gate.before, gate.after):
                    guard = client.guard(f"g {verb}", ttl=60, lease=3600)
                    reached = asyncio.Event()

                    async def hold(reached: asyncio.Event = reached) -> None:
                        reached.set()
                        await asyncio.sleep(3600)

                    source = Source()
                    place[verb] = hold
                    task = asyncio.create_task(guard.get(source.compute))
                    await reached.wait()
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    assert await guard.get(source.compute, timeout=5) == 0
                    assert guard._shared.flights == {}
                    await guard.invalidate()

    asyncio.run(main())


def test_a_background_refresh_that_fails_is_logged_and_tried_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(at: At) -> None:
        guard = at.guard(ttl=10, stale=60, refresh="background")
        source = Source()
        await guard.get(source.compute)
        at.pass_(11)

        async def fail() -> int:
            raise LookupError("in vain")

        with caplog.at_level(logging.ERROR, "holdfast"):
            assert await guard.get(fail) == 0
            await at.until(lambda: "in the background failed" in caplog.text, "logged")
        source.version = 1
        await at.until(lambda: not guard._shared.refreshing, "over")
        await at.face.sleep(0.11)  # it is remembered for a moment that somebody computes
        assert await guard.get(source.compute) == 0
        await at.until(lambda: source.asked == 2 and not guard._shared.refreshing, "refreshed")
        assert await guard.get(source.compute) == 1

    run(case)


def test_a_client_closed_during_a_computation_releases_the_refresh_lease(run: Run) -> None:
    async def case(at: At) -> None:
        client, other = at.client(), at.guard(lease=3600)
        guard = client.guard("g", ttl=60, lease=3600)
        reached, go = at.flag(), at.flag()

        async def slow() -> int:
            reached.set()
            await go.wait()
            return 1

        async def first() -> Any:
            return await guard.get(slow)

        actor = at.start(first)
        await reached.wait()
        await client.close()

        async def quick() -> int:
            return 2

        assert await other.get(quick, timeout=5) == 2
        go.set()
        assert await actor.result() == 1
        assert await other.get(slow) == 2

    run(case)


def test_the_child_of_a_fork_stores_nothing_for_its_parent() -> None:
    """Given a computation that forks, then the value of the child isn't stored."""
    with Client(f"memory://{os.urandom(8).hex()}") as client:
        guard, gate = client.guard("g", ttl=60), behind(client)
        told, tell = os.pipe()

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
            if os.getpid() != PARENT:
                os._exit(0)
        assert value == "parent"
        assert os.read(told, 100) == b"refused"
        assert guard.get(compute) == "parent"


PARENT = os.getpid()
