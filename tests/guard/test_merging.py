"""Callers of one process share a read, but no reply is older than the question."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from holdfast import ConfigError, StoreUnavailable
from holdfast.core.guard.guard import BESIDE_MAX
from holdfast.core.guard.model import Entry
from holdfast.testing.conformance.struck import FOREVER, Overlaid
from tests.faced import At, behind


@pytest.mark.parametrize("stale", [False, True])
async def test_a_caller_that_comes_after_a_read_was_sent_does_not_share_it(
    at: At, stale: bool
) -> None:
    # Given an old value, on its way to a caller; if it is stale, the caller will then request the
    # refresh lease
    guard, gate = at.gated(ttl=10, stale=60)
    other, source = at.guard(ttl=10, stale=60), at.source
    await other.get(source.compute)
    at.pass_(11 if stale else 0)
    answered, go = at.held(gate)
    early = at.start(guard.get, source.compute)
    await answered.wait()
    # When it is invalidated, and another caller comes before the reply
    source.version = 1
    assert await other.invalidate() == 1
    late = at.start(guard.get, source.compute)
    await at.seated(guard, 1)
    go.set()
    # Then at most the caller that asked before the invalidation gets the old value
    assert await late.result() == 1
    assert await early.result() == int(stale)


async def test_a_caller_that_times_out_leaves_and_the_others_stay(at: At) -> None:
    guard, source = at.guard(on_timeout="compute"), at.source
    leader = at.start(guard.get, source.slow)
    await source.begun.wait()
    patient = at.start(guard.get, source.compute)
    assert await guard.get(source.compute, timeout=0.05) == 0
    assert source.asked == 1
    source.version = 7
    source.go.set()
    assert await leader.result() == await patient.result() == 7


async def test_a_silent_store_is_reported_to_all_callers_together(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.guard.refresh.SILENCE_S", 0.3)
    guard, gate = at.gated()
    gate.down["read"] = FOREVER
    for actor in [at.start(guard.get, at.source.compute) for _ in range(20)]:
        with pytest.raises(StoreUnavailable, match="planted"):
            await actor.result()
    # One caller asks for all, or a few in turn: not each caller for itself.
    assert gate.calls["read"] < 40
    assert at.source.asked == 0


async def test_guards_made_for_each_request_share_one_flight(at: At) -> None:
    # Given a program that makes a guard for each request
    client, source = at.client(), at.source
    gate = behind(client, "guards")

    async def ask() -> object:
        return await client.guard("g", ttl=60, local_ttl=60).get(source.slow)

    actors = [at.start(ask) for _ in range(5)]
    await at.seated(client.guard("g", ttl=60), 4)
    source.go.set()
    # Then they ask only once, and no count is lost
    assert [await one.result() for one in actors] == [0] * 5
    assert source.asked == 1
    assert (gate.calls["read"], gate.calls["begin"], gate.calls["finish"]) == (1, 1, 1)
    assert (await at.guard().stats()).computes == 0
    await client.close()
    told = await at.guard().stats()
    assert (told.computes, told.merged) == (1, 4)


async def test_a_caller_does_not_wait_for_anothers_read_of_a_fresh_value(at: At) -> None:
    # Given a fresh value, whose reply to one caller takes long
    guard, gate = at.gated()
    source = at.source
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


async def test_few_callers_read_at_the_same_time_as_the_leader(at: At) -> None:
    # Given a store that takes long for every read
    guard, gate = at.gated()
    source, go, inner = at.source, at.flag(), gate.verbs
    await guard.get(source.compute)
    before = gate.calls["read"]

    async def read(*args: Any) -> Any:
        await go.wait()
        return await inner.read(*args)

    gate.verbs = Overlaid(inner, read=read)
    # When many callers come together, then one reads for the waiting ones, and two for themselves
    actors = [at.start(guard.get, source.compute) for _ in range(20)]
    await at.seated(guard, 17)
    assert gate.calls["read"] - before == 1 + BESIDE_MAX
    go.set()
    assert [await one.result() for one in actors] == [0] * 20
    assert source.asked == 1


async def test_a_separate_read_returns_no_expired_value(at: At) -> None:
    # Given a value whose ttl has expired, and a caller that reads it
    guard, gate = at.gated(ttl=5, on_timeout="stale")
    source = at.source
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


async def test_an_old_value_that_is_known_is_served_while_it_may_be_and_another_computes(
    at: At,
) -> None:
    # Given a stale value that the store can return without a request
    guard, gate = at.gated(ttl=5, stale=60)
    source, entry = at.source, Entry("g", "")
    await guard.get(source.compute)
    at.pass_(10)
    (old,) = await gate.verbs.read((entry,), 1.0)
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


async def test_callers_that_waited_for_one_value_send_few_counts(at: At) -> None:
    # Given counts that are due to be sent, and a store that takes long to receive them
    guard, gate = at.gated()
    source, heard = at.source, at.flag()
    guard._ctx.told = -math.inf
    gate.before["tally"] = heard.wait
    actors = [at.start(guard.get, source.slow) for _ in range(20)]
    await at.seated(guard, 19)
    source.go.set()
    # When all callers have the value, then one caller sends the counts, or two at the same time
    await at.until(lambda: sum(one.finished for one in actors) >= 17, "most have gone on")
    heard.set()
    assert [await one.result() for one in actors] == [0] * 20
    assert 1 <= gate.calls["tally"] <= 3
    assert (await guard.stats()).merged == 19


async def test_what_computes_a_value_may_not_ask_for_it(at: At) -> None:
    guard, source = at.guard(), at.source

    async def outer() -> int:
        return int(await guard.get(source.compute)) + 1

    with pytest.raises(ConfigError, match="asks for the same value"):
        await guard.get(outer)
    assert await guard.get(source.compute, key="another") == 0
    assert await guard.get(source.compute) == 0


async def test_a_caller_cancelled_when_it_becomes_the_leader_hands_over(aio: At) -> None:
    guard, source = aio.guard(), aio.source
    waiting: list[asyncio.Task[int]] = []

    async def fail() -> int:
        source.begun.set()
        await source.go.wait()
        waiting[0].cancel()
        raise LookupError("no value")

    # Given a leader and two waiting callers
    leader = asyncio.create_task(guard.get(fail))
    await source.begun.wait()
    for seated in (1, 2):
        waiting.append(asyncio.create_task(guard.get(source.compute)))
        await aio.seated(guard, seated)
    # When the first is cancelled as the leader fails, then the second leads
    source.go.set()
    _done, late = await asyncio.wait([leader, *waiting], timeout=10)
    assert not late
    assert waiting[0].cancelled()
    assert waiting[1].result() == 0
    assert isinstance(leader.exception(), LookupError)
    assert guard._shared.flights == {}
