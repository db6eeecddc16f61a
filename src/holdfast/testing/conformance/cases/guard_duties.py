"""The refresh lease of a guard: one caller holds the lease, and only this caller stores a value."""

from __future__ import annotations

from ....core.guard.model import (
    Abandon,
    Busy,
    Duty,
    Entry,
    EntryState,
    Finish,
    Prolong,
    Value,
    Wish,
)
from ....core.guard.ports import guards_of
from ....core.model import Gone
from ....errors import ComputeFailed
from ...faces import now
from ...promise import promised
from ..arena import Arena, raises
from ..registry import case
from ..struck import FOREVER
from ..struck import guards_of as struck_guards_of
from .guards import MANY, Source

#: The time-out of a request, seconds.
WITHIN_S = 5.0
#: Number of attempts, to find a fault that happens about once in thirty attempts.
OFTEN = 60


@case("guard")
async def when_one_fails_exactly_one_successor_computes_at_once(at: Arena) -> None:
    inside, go = at.flag(), at.flag()
    source = Source(at, 0.2)
    ours, theirs = at.guard(ttl=60, lease=60), at.rival_guard(ttl=60, lease=60)

    async def fail() -> int:
        inside.set()
        await go.wait()
        raise LookupError("no value")

    async def first() -> None:
        with raises(LookupError, "no value"):
            await ours.get(fail)

    async def later(number: int) -> int:
        return int(await (ours, theirs)[number % 2].get(source.compute()))

    actor = at.start(first)
    await inside.wait()
    waiters = [at.start(later, number) for number in range(MANY)]
    await at.sleep(0.1)
    begun = now()
    go.set()
    await actor.result()
    assert [await waiter.result() for waiter in waiters] == [1] * MANY
    assert source.calls == 1
    assert now() - begun < 0.2 + at.served(begun)


@case("guard")
async def a_failure_is_remembered_for_longer_and_longer(at: Arena) -> None:
    calls = 0

    async def fail() -> int:
        nonlocal calls
        calls += 1
        raise LookupError("no such page")

    ours = at.guard(ttl=60, failure_ttl=1.5)
    theirs = at.rival_guard(ttl=60, failure_ttl=1.5)
    pauses = []
    for number in (1, 2):
        with raises(LookupError):
            await ours.get(fail)
        with raises(ComputeFailed, at.name, "LookupError: no such page", "failure_ttl") as caught:
            await theirs.get(fail)
        seen = await theirs.inspect()
        assert seen.failures == number
        assert seen.reason == "LookupError: no such page"
        pauses.append(caught.error.retry_in)
        await at.sleep(caught.error.retry_in + 0.02)
    assert calls == 2
    assert pauses[0] <= 1.5 < pauses[1] <= 3.0
    source = Source(at)
    assert await theirs.get(source.compute()) == 1
    assert (await ours.inspect()).failures == 0


@case("guard")
async def a_stale_value_is_served_while_failures_are_remembered(at: Arena) -> None:
    async def fail() -> int:
        raise LookupError("no such page")

    source = Source(at)
    ours = at.guard(ttl=0.2, stale=60, failure_ttl=60)
    theirs = at.rival_guard(ttl=0.2, stale=60, failure_ttl=60)
    assert await ours.get(source.compute()) == 1
    await at.sleep(0.22)
    with raises(LookupError):
        await ours.get(fail)
    assert await theirs.get(source.compute()) == 1
    assert source.calls == 1


@case("guard")
async def what_was_computed_from_before_an_invalidation_is_not_stored(at: Arena) -> None:
    inside, go = at.flag(), at.flag()
    ours, theirs = at.guard(ttl=60), at.rival_guard(ttl=60)

    async def old() -> str:
        inside.set()
        await go.wait()
        return "old"

    async def new() -> str:
        return "new"

    async def first() -> str:
        return str(await ours.get(old))

    async def waits() -> str:
        return str(await ours.get(new))

    actor = at.start(first)
    await inside.wait()
    merged = at.start(waits)
    await at.sleep(0.1)
    assert await theirs.invalidate() == 0
    # A call after the invalidation doesn't get a value whose computation began before the
    # invalidation.
    assert await theirs.get(new) == "new"
    go.set()
    assert await actor.result() == "old"
    assert await merged.result() == "new"
    assert await ours.get(old) == "new"
    assert await theirs.invalidate() == 1
    assert (await ours.inspect()).state is EntryState.MISSING


@case("guard")
async def a_computation_that_outlives_its_lease_overwrites_nothing(at: Arena) -> None:
    inside, go = at.flag(), at.flag()
    ours, theirs = at.guard(ttl=60, lease=0.3), at.rival_guard(ttl=60)
    # The renewer is stopped, as in a frozen process.
    at.locks._ctx.keeper.stop()

    async def slow() -> str:
        inside.set()
        await go.wait()
        return "late"

    async def slower() -> str:
        await at.sleep(0.5)
        return "late"

    async def quick() -> str:
        return "in time"

    async def first() -> str:
        return str(await ours.get(slow))

    actor = at.start(first)
    await inside.wait()
    begun = now()
    assert await theirs.get(quick) == "in time"
    assert now() - begun < 0.3 + at.served(begun)
    go.set()
    assert await actor.result() == "late"
    with promised("a computation that outlives its lease stores nothing"):
        assert await theirs.get(slow) == "in time"
        # Nor if no other computation has begun since
        assert await ours.get(slower, key="alone") == "late"
        assert await theirs.get(quick, key="alone") == "in time"
    assert (await ours.stats()).refused == 2


@case("guard")
async def a_long_computation_keeps_its_refresh_lease(at: Arena) -> None:
    source = Source(at, 6.2)
    ours, theirs = at.guard(ttl=60, lease=3.0), at.rival_guard(ttl=60, lease=3.0)

    async def first() -> int:
        return int(await ours.get(source.compute()))

    actor = at.start(first)
    await at.until(lambda: source.calls == 1)
    assert await theirs.get(source.compute()) == 1
    assert await actor.result() == 1
    assert source.calls == 1


@case("guard", promise=True)
async def a_refresh_lease_has_one_holder_however_often_others_ask(at: Arena) -> None:
    guards, entry = guards_of(at.locks._ctx.store), Entry(at.name, "")
    for number in range(OFTEN):
        ours, theirs = (Wish(entry, f"{number:030x}{end}", "owner", 60.0) for end in ("01", "02"))
        duty = await guards.begin(ours, WITHIN_S)
        assert isinstance(duty, Duty)
        finish = Finish(entry, ours.id, duty.fence, b"ours", 60.0, 0.0, 0.0, 0.1)
        for wrong in (finish._replace(id=theirs.id), finish._replace(fence=duty.fence - 1)):
            assert isinstance(await guards.begin(theirs, WITHIN_S), Busy)
            assert await guards.finish(wrong._replace(data=b"theirs"), WITHIN_S) is False
        assert await guards.read([entry], WITHIN_S) == [None]
        assert await guards.finish(finish, WITHIN_S) is True
        assert await guards.invalidate([entry], WITHIN_S) == [True]


@case("guard")
async def a_refresh_lease_ends_once_and_only_by_its_holder(at: Arena) -> None:
    guards, entry = guards_of(at.locks._ctx.store), Entry(at.name, "")
    ours, theirs = (Wish(entry, end * 16, "owner", 60.0) for end in ("1f", "2e"))
    assert isinstance(await guards.begin(ours, WITHIN_S), Duty)
    for wish, held in ((theirs, False), (ours, True), (ours, False)):
        assert await guards.abandon(Abandon(entry, wish.id, 60.0), WITHIN_S) is held
    assert (await guards.look(entry, WITHIN_S)).owner == ""


@case("guard")
async def a_late_copy_of_a_request_restores_no_refresh_lease(at: Arena) -> None:
    guards, entry = guards_of(at.locks._ctx.store), Entry(at.name, "")
    wish = Wish(entry, "1f" * 16, "owner", 60.0)
    duty = await guards.begin(wish, WITHIN_S)
    assert isinstance(duty, Duty)
    again = await guards.begin(wish, WITHIN_S)
    assert isinstance(again, Duty)
    assert again.fence == duty.fence
    assert await guards.invalidate([entry], WITHIN_S) == [False]
    # The copy arrives after the invalidation; the copy gets a refresh lease that no caller will
    # use.
    copy = await guards.begin(wish, WITHIN_S)
    assert isinstance(copy, Duty)
    assert copy.fence > duty.fence
    finish = Finish(entry, wish.id, duty.fence, b"told", 60.0, 0.0, 0.0, 0.1)
    assert await guards.finish(finish, WITHIN_S) is False
    (gone,) = await guards.prolong([Prolong(entry, wish.id, duty.fence, 60.0)], WITHIN_S)
    assert isinstance(gone, Gone)
    assert await guards.read([entry], WITHIN_S) == [None]
    assert isinstance(await guards.begin(wish._replace(id="2e" * 16), WITHIN_S), Busy)
    # A finish with the copy's fence succeeds; a repetition of this finish changes nothing.
    theirs = finish._replace(fence=copy.fence)
    assert await guards.finish(theirs, WITHIN_S) is True
    assert await guards.finish(theirs, WITHIN_S) is True
    (value,) = await guards.read([entry], WITHIN_S)
    assert isinstance(value, Value)
    assert (value.data, value.version) == (b"told", copy.fence)
    assert isinstance(await guards.begin(wish, WITHIN_S), Value)


@case("guard")
async def an_outage_that_begins_behind_the_read_is_waited_for_once(at: Arena) -> None:
    # Given a store that answers reads, but no request for a refresh lease
    client = at.client()
    # (a store without guards refuses here)
    assert await client.guard(at.name, ttl=60).invalidate("a") == 0
    struck = struck_guards_of(client)
    guard = client.guard(at.name, ttl=60, on_store_error="compute")
    struck.down["begin"] = FOREVER
    asked: list[int] = []

    async def compute(key: str) -> str:
        asked.append(struck.calls["begin"])
        return key.upper()

    # When several values are missing
    assert await guard.get_many([*"abcd"], compute) == {key: key.upper() for key in "abcd"}
    # Then only the first value costs requests; the other values use the result, the outage
    assert len(asked) == 4
    assert asked[0] > 0
    assert asked == [asked[0]] * 4
    # And the next call sends its own request
    struck.down["begin"] = 0
    assert await guard.get_many(["a"], compute) == {"a": "A"}
    assert (await guard.get_many(["a"], compute), len(asked)) == ({"a": "A"}, 5)
