"""Callers of one process share a read, but no reply is older than the question."""

from __future__ import annotations

import math
from typing import Any

import pytest

from holdfast import ConfigError, StoreUnavailable
from holdfast.core.guard.guard import BESIDE_MAX
from holdfast.core.guard.model import Entry
from tests.guard.conftest import At, Run, Source


def test_a_caller_that_comes_after_a_read_was_sent_does_not_share_it(run: Run) -> None:
    async def case(at: At) -> None:
        # Given an old value, on its way to one caller
        guard, gate = at.gated()
        other, source = at.guard(), Source()
        await other.get(source.compute)
        answered, go = at.held(gate)

        async def ask() -> object:
            return await guard.get(source.compute)

        early = at.start(ask)
        await answered.wait()
        # When it is invalidated, and another caller comes before the reply
        source.version = 1
        assert await other.invalidate() == 1
        late = at.start(ask)
        await at.seated(guard, 1)
        go.set()
        # Then only the caller that asked before the invalidation gets the old value
        assert await early.result() == 0
        assert await late.result() == 1

    run(case)


def test_a_stale_value_is_shared_only_with_callers_present_at_the_read(run: Run) -> None:
    async def case(at: At) -> None:
        # Given a stale value, on its way to a caller that will request the refresh lease after that
        guard, gate = at.gated(ttl=10, stale=60)
        other, source = at.guard(ttl=10, stale=60), Source()
        await other.get(source.compute)
        at.pass_(11)
        reached, go = at.held(gate)

        async def ask() -> object:
            return await guard.get(source.compute)

        first = at.start(ask)
        await reached.wait()
        # When it is invalidated, and another caller comes before the refresh lease is requested
        source.version = 1
        assert await other.invalidate() == 1
        late = at.start(ask)
        await at.seated(guard, 1)
        go.set()
        # Then the late caller doesn't get the old value
        assert await late.result() == 1
        assert await first.result() == 1

    run(case)


def test_all_callers_present_at_the_read_get_its_value(run: Run) -> None:
    async def case(at: At) -> None:
        guard, gate = at.gated()
        source, reached, go = Source(), at.flag(), at.flag()

        async def slow() -> int:
            reached.set()
            await go.wait()
            return await source.compute()

        async def first() -> object:
            return await guard.get(slow)

        async def ask() -> object:
            return await guard.get(source.compute)

        actors = [at.start(first)]
        await reached.wait()
        actors += [at.start(ask) for _ in range(20)]
        await at.seated(guard, 20)
        go.set()
        assert [await one.result() for one in actors] == [0] * 21
        assert source.asked == 1
        assert (gate.calls["read"], gate.calls["begin"], gate.calls["finish"]) == (1, 1, 1)
        assert guard._shared.flights == {}

    run(case)


def test_when_the_leader_fails_one_of_the_others_leads(run: Run) -> None:
    async def case(at: At) -> None:
        guard, _ = at.gated()
        source, reached, go = Source(), at.flag(), at.flag()

        async def fail() -> int:
            reached.set()
            await go.wait()
            raise LookupError("in vain")

        async def first() -> object:
            with pytest.raises(LookupError):
                await guard.get(fail)
            return "failed"

        async def ask() -> object:
            return await guard.get(source.compute)

        leader = at.start(first)
        await reached.wait()
        others = [at.start(ask) for _ in range(5)]
        await at.seated(guard, 5)
        go.set()
        assert await leader.result() == "failed"
        assert [await one.result() for one in others] == [0] * 5
        assert source.asked == 1

    run(case)


def test_a_caller_that_times_out_leaves_and_the_others_stay(run: Run) -> None:
    async def case(at: At) -> None:
        guard, _ = at.gated(on_timeout="compute")
        source, reached, go = Source(), at.flag(), at.flag()

        async def slow() -> int:
            reached.set()
            await go.wait()
            return 7

        async def first() -> object:
            return await guard.get(slow)

        async def ask(timeout: float) -> object:
            return await guard.get(source.compute, timeout=timeout)

        leader = at.start(first)
        await reached.wait()
        patient, hasty = at.start(ask, 30), at.start(ask, 0.05)
        assert await hasty.result() == 0
        assert source.asked == 1
        go.set()
        assert await leader.result() == 7
        assert await patient.result() == 7

    run(case)


def test_a_silent_store_is_reported_to_all_callers_together(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.guard.refresh.SILENCE_S", 0.3)

    async def case(at: At) -> None:
        guard, gate = at.gated()
        source = Source()
        gate.down["read"] = 10**6

        async def ask() -> object:
            with pytest.raises(StoreUnavailable, match="planted"):
                await guard.get(source.compute)
            return "told"

        actors = [at.start(ask) for _ in range(20)]
        assert [await one.result() for one in actors] == ["told"] * 20
        # One caller asks for all, or a few in turn: not each caller for itself.
        assert gate.calls["read"] < 40
        assert source.asked == 0

    run(case)


def test_guards_made_for_each_request_share_one_flight(run: Run) -> None:
    async def case(at: At) -> None:
        # Given a program that makes a guard for each request
        client, source, go = at.client(), Source(), at.flag()

        async def slow() -> int:
            await go.wait()
            return await source.compute()

        async def ask() -> object:
            return await client.guard("g", ttl=60, local_ttl=60).get(slow)

        actors = [at.start(ask) for _ in range(5)]
        await at.seated(client.guard("g", ttl=60), 4)
        go.set()
        # Then they ask only once, and no count is lost
        assert [await one.result() for one in actors] == [0] * 5
        assert source.asked == 1
        assert (await at.guard().stats()).computes == 0
        await client.close()
        told = await at.guard().stats()
        assert (told.computes, told.merged) == (1, 4)

    run(case)


def test_a_caller_does_not_wait_for_anothers_read_of_a_fresh_value(run: Run) -> None:
    async def case(at: At) -> None:
        # Given a fresh value, whose reply to one caller takes long
        guard, gate = at.gated()
        source = Source()
        await guard.get(source.compute)
        read, go = at.held(gate)
        first = at.start(guard.get, source.compute)
        await read.wait()
        # Then another caller gets it by a separate read, and no flight is left
        assert await guard.get(source.compute) == 0
        assert not first.finished
        go.set()
        assert await first.result() == 0
        assert not guard._shared.flights
        assert ((await guard.stats()).hits, source.asked) == (2, 1)

    run(case)


def test_few_callers_read_at_the_same_time_as_the_leader(run: Run) -> None:
    async def case(at: At) -> None:
        # Given a store that takes long for every read
        guard, gate = at.gated()
        source, go = Source(), at.flag()
        await guard.get(source.compute)
        inner, before = gate.guards, gate.calls["read"]

        class Slow:
            limits = inner.limits

            def __getattr__(self, name: str) -> Any:
                return getattr(inner, name)

            async def read(self, *args: Any) -> Any:
                await go.wait()
                return await inner.read(*args)

        gate.guards = Slow()  # type: ignore[assignment]
        # When many callers come together, then one reads for the waiting ones, and two for
        # themselves
        actors = [at.start(guard.get, source.compute) for _ in range(20)]
        await at.seated(guard, 17)
        assert gate.calls["read"] - before == 1 + BESIDE_MAX
        go.set()
        assert [await one.result() for one in actors] == [0] * 20
        assert source.asked == 1

    run(case)


def test_a_separate_read_returns_no_expired_value(run: Run) -> None:
    async def case(at: At) -> None:
        # Given a value whose ttl has expired, and a caller that reads it
        guard, gate = at.gated(ttl=5, on_timeout="stale")
        source = Source()
        await guard.get(source.compute)
        at.pass_(10)
        source.version = 1
        read, go = at.held(gate)
        first = at.start(guard.get, source.compute)
        await read.wait()
        second = at.start(guard.get, source.compute)
        await at.seated(guard, 1)
        go.set()
        assert (await first.result(), await second.result()) == (1, 1)
        assert source.asked == 2

    run(case)


def test_an_old_value_that_is_known_is_served_while_it_may_be_and_another_computes(
    run: Run,
) -> None:
    async def case(at: At) -> None:
        # Given a stale value that the store can return without a request
        guard, gate = at.gated(ttl=5, stale=60)
        source, entry = Source(), Entry("g", "")
        await guard.get(source.compute)
        at.pass_(10)
        (old,) = await gate.guards.read((entry,), 1.0)
        inner = getattr(guard, "_thing", guard)  # of threads it is a twin
        inner._glance = {entry: old}.get
        source.version, before = 1, gate.calls.total()
        # When another process computes the next value, then no request is sent
        guard._shared.note_busy("", math.inf)
        assert await guard.get(source.compute) == 0
        assert gate.calls.total() == before
        assert (await guard.stats()).stale == 1
        # But the store is asked for a value that is too old, or that no process computes
        inner._glance = {entry: old._replace(stale_in=-1.0)}.get
        assert await guard.get(source.compute) == 0
        assert gate.calls["read"] > 1
        guard._shared.busy.clear()
        inner._glance = {entry: old}.get
        assert await guard.get(source.compute) == 1

    run(case)


def test_callers_that_waited_for_one_value_send_few_counts(run: Run) -> None:
    async def case(at: At) -> None:
        # Given counts that are due to be sent, and a store that takes long to receive them
        guard, gate = at.gated()
        source, go, heard = Source(), at.flag(), at.flag()
        guard._ctx.told = -math.inf
        gate.before["tally"] = heard.wait

        async def slow() -> int:
            await go.wait()
            return await source.compute()

        actors = [at.start(guard.get, slow) for _ in range(20)]
        await at.seated(guard, 19)
        go.set()
        # When all callers have the value, then one caller sends the counts, or two at the same time
        await at.until(lambda: sum(one.finished for one in actors) >= 17, "most have gone on")
        heard.set()
        assert [await one.result() for one in actors] == [0] * 20
        assert 1 <= gate.calls["tally"] <= 3
        assert (await guard.stats()).merged == 19

    run(case)


def test_what_computes_a_value_may_not_ask_for_it(run: Run) -> None:
    async def case(at: At) -> None:
        guard = at.guard()

        async def inner() -> int:
            return 1

        async def outer() -> int:
            return int(await guard.get(inner)) + 1

        with pytest.raises(ConfigError, match="asks for the same value"):
            await guard.get(outer)
        assert await guard.get(inner, key="another") == 1
        assert await guard.get(inner) == 1

    run(case)


def test_a_caller_cancelled_when_it_becomes_the_leader_hands_over() -> None:
    """Given two waiting callers, when the first is cancelled as the leader fails, the
    second leads.
    """
    import asyncio

    from holdfast import AsyncClient

    async def main() -> None:
        async with AsyncClient(f"memory://{id(object())}") as client:
            guard = client.guard("g", ttl=60)
            begun, go, source = asyncio.Event(), asyncio.Event(), Source()
            waiting: list[asyncio.Task[int]] = []

            async def fail() -> int:
                begun.set()
                await go.wait()
                waiting[0].cancel()
                raise LookupError("in vain")

            leader = asyncio.create_task(guard.get(fail))
            await begun.wait()
            for seated in (1, 2):
                waiting.append(asyncio.create_task(guard.get(source.compute)))
                while len(guard._shared.flights[""]._seats) < seated:
                    await asyncio.sleep(0.001)
            go.set()
            _done, late = await asyncio.wait([leader, *waiting], timeout=10)
            assert not late
            assert waiting[0].cancelled()
            assert waiting[1].result() == 0
            assert isinstance(leader.exception(), LookupError)
            assert guard._shared.flights == {}

    asyncio.run(main())
