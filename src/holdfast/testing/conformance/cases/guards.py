"""Refresh guards: one caller computes, the others wait for the value or take the old one."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from ....core.guard.model import EntryState
from ....errors import ConfigError, RefreshTimeout
from ...faces import now
from ..arena import Arena, at_once, raises
from ..registry import case

#: The number of simultaneous callers.
MANY = 8


class Source:
    """Computes the values of a guard. It counts its calls, and the maximum that run at once."""

    def __init__(self, at: Arena, seconds: float = 0.0) -> None:
        self._at = at
        self.seconds = seconds
        self.calls = 0
        self.inside = 0
        self.most = 0

    def compute(self) -> Callable[[], Awaitable[Any]]:
        """Return a compute function for ``get``; the value is the number of the call."""

        async def ask() -> int:
            self.calls += 1
            number = self.calls
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self._at.sleep(self.seconds)
            self.inside -= 1
            return number

        return ask


@case("guard")
async def a_value_is_computed_once_and_then_read(at: Arena) -> None:
    source = Source(at)
    ours, theirs = at.guard(ttl=60), at.rival_guard(ttl=60)
    assert await ours.get(source.compute()) == 1
    assert await ours.get(source.compute()) == 1
    assert await theirs.get(source.compute()) == 1
    assert source.calls == 1
    seen = await theirs.inspect()
    assert seen.state is EntryState.FRESH
    assert 55 < seen.fresh_in <= 60
    assert (seen.owner, seen.failures) == ("", 0)


@case("guard")
async def a_value_comes_back_unchanged(at: Arena) -> None:
    guard, other = at.guard(ttl=60), at.rival_guard(ttl=60)
    values = ["text \N{SNOWMAN}", b"\0\xff", {"a": [1, 2.5, None, True]}, "", b"", [], 0, None]
    for number, one in enumerate(values):

        async def compute(value: Any = one) -> Any:
            return value

        for asked in (guard, guard, other):
            found = await asked.get(compute, key=f"key {number}")
            assert found == one
            assert type(found) is type(one)


@case("guard")
async def a_read_after_a_pause_takes_no_longer(at: Arena) -> None:
    source = Source(at)
    guard = at.guard(ttl=60)
    assert await guard.get(source.compute()) == 1
    await at.sleep(1.2)  # the client checks a connection that was idle for over a second
    for key in ("", "another"):
        begun = now()
        assert await guard.get(source.compute(), key=key) in (1, 2)
        assert now() - begun < at_once(begun)


@case("guard", promise=True)
async def keys_are_apart_whatever_is_in_them(at: Arena) -> None:
    guard = at.guard(ttl=60)
    keys = ["", "a", "a/b", "a:b", "{a}", "a b\n", "\N{SNOWMAN}", "k" * 512, "%", "\\", "*"]

    async def compute(key: str) -> str:
        return f"of {key}"

    for _ in range(2):
        assert await guard.get_many(keys, compute) == {key: f"of {key}" for key in keys}

    async def never() -> str:
        raise AssertionError("it is there")

    for key in keys:
        assert await guard.get(never, key=key) == f"of {key}"
    with raises(ConfigError, "key", "512"):
        await guard.get(never, key="k" * 513)


@case("guard")
async def of_many_who_miss_one_computes_and_all_get_its_value(at: Arena) -> None:
    source = Source(at, 0.3)
    guards = [at.guard(ttl=60), at.rival_guard(ttl=60)]

    async def ask(number: int) -> tuple[int, float]:
        found = await guards[number % 2].get(source.compute())
        return found, now()

    begun = now()
    actors = [at.start(ask, number) for number in range(MANY)]
    answers = [await actor.result() for actor in actors]
    assert [found for found, _ in answers] == [1] * MANY
    assert source.calls == 1
    # The new value wakes all callers at the same time; the callers don't read the value one after
    # the other.
    assert max(when for _, when in answers) - begun < 0.3 + at.served(begun)


@case("guard")
async def while_one_refreshes_the_others_get_the_old_value_at_once(at: Arena) -> None:
    source = Source(at)
    ours, theirs = at.guard(ttl=0.3, stale=60), at.rival_guard(ttl=0.3, stale=60)
    assert await ours.get(source.compute()) == 1
    await at.sleep(0.32)
    source.seconds = 2.0
    begun = now()

    async def refresh() -> int:
        return int(await ours.get(source.compute()))

    actor = at.start(refresh)
    await at.until(lambda: source.calls == 2)
    for _ in range(3):
        assert await theirs.get(source.compute()) == 1
        assert await ours.get(source.compute()) == 1
    assert now() - begun < 2.0 + at_once(begun)
    assert await actor.result() == 2
    assert source.calls == 2


@case("guard")
async def in_the_background_no_caller_waits_for_the_refresh(at: Arena) -> None:
    source = Source(at)
    assert await at.guard(ttl=0.3, stale=60).get(source.compute()) == 1
    await at.sleep(0.32)
    # The new value must stay fresh: a call that reads a stale value would compute it once more.
    guard = at.guard(ttl=60, stale=60, refresh="background")
    assert await guard.get(source.compute()) == 1
    await at.until(lambda: source.calls == 2 and not source.inside)
    late = at.guard(ttl=60, stale=60)
    begun = now()
    while (await late.inspect()).version == 0 or await late.get(source.compute()) == 1:
        assert now() - begun < 5
        await at.sleep(0.01)
    assert source.calls == 2


@case("guard")
async def a_caller_that_waits_too_long_raises_computes_or_gets_the_old_value(at: Arena) -> None:
    source, own = Source(at, 3.0), Source(at)
    slow = at.guard(ttl=60)

    async def first() -> int:
        return int(await slow.get(source.compute()))

    actor = at.start(first)
    await at.until(lambda: source.calls == 1)
    with raises(RefreshTimeout, at.name, "on_timeout"):
        await at.rival_guard(ttl=60).get(own.compute(), timeout=0.2)
    alone = at.rival_guard(ttl=60, on_timeout="compute")
    assert await alone.get(own.compute(), timeout=0) == 1
    assert await actor.result() == 1
    assert source.calls == own.calls == 1
    assert await alone.get(own.compute()) == 1


@case("guard")
async def a_value_past_its_time_is_a_last_resort(at: Arena) -> None:
    source = Source(at)
    options: dict[str, Any] = {"ttl": 0.1, "stale": 0.1, "on_timeout": "stale"}
    ours, theirs = at.guard(**options), at.rival_guard(**options)
    assert await ours.get(source.compute()) == 1
    await at.sleep(0.25)
    assert (await ours.inspect()).state is EntryState.EXPIRED
    source.seconds = 3.0

    async def refresh() -> int:
        return int(await ours.get(source.compute()))

    actor = at.start(refresh)
    await at.until(lambda: source.calls == 2)
    assert await theirs.get(source.compute(), timeout=0.1) == 1
    assert await actor.result() == 2


@case("guard")
async def many_are_read_together(at: Arena) -> None:
    asked: list[str] = []

    async def compute(key: str) -> str:
        asked.append(key)
        return key.upper()

    guard, other = at.guard(ttl=60), at.rival_guard(ttl=60)
    assert await guard.get_many(["b", "a", "b"], compute) == {"b": "B", "a": "A"}
    assert await other.get_many(["a", "c", "b"], compute) == {"a": "A", "c": "C", "b": "B"}
    assert asked == ["b", "a", "c"]
    assert await guard.invalidate("a", "c", "z") == 2
    assert await guard.get_many([], compute) == {}
    with raises(ConfigError, "several"):
        await guard.get_many("abc", compute)


@case("guard")
async def a_hot_value_is_served_from_the_process_for_a_moment(at: Arena) -> None:
    source = Source(at)
    hot, other = at.guard(ttl=60, local_ttl=1.0), at.rival_guard(ttl=60)
    assert await hot.get(source.compute()) == 1
    begun = now()
    assert await other.invalidate() == 1
    assert await other.get(source.compute()) == 2
    if now() - begun < 0.9:  # on a slow machine the value of the local cache has expired
        assert await hot.get(source.compute()) in (1, 2)
    await at.sleep(1.0)
    assert await hot.get(source.compute()) == 2
    # An invalidation by this process also empties its local cache.
    assert await hot.invalidate() == 1
    assert await hot.get(source.compute()) == 3


@case("guard")
async def too_large_a_value_is_refused_and_no_caller_waits_for_it(at: Arena) -> None:
    async def compute() -> bytes:
        return os.urandom(101)

    async def small() -> bytes:
        return b"x" * 100

    guard, other = at.guard(ttl=60, max_bytes=100, lease=60), at.rival_guard(ttl=60)
    with raises(ConfigError, "101", "100", "value"):
        await guard.get(compute)
    assert await other.get(small, timeout=5) == b"x" * 100


@case("guard")
async def a_function_is_cached_by_its_arguments(at: Arena) -> None:
    calls: list[int] = []

    async def user(number: int, deep: bool = False) -> dict[str, Any]:
        calls.append(number)
        return {"id": number, "deep": deep}

    cached = at.locks.cached(at.name + "user:{number}:{deep}", ttl=60)(user)
    assert await cached(1) == {"id": 1, "deep": False}
    assert await cached(number=1) == {"id": 1, "deep": False}
    assert await cached(1, deep=True) == {"id": 1, "deep": True}
    assert calls == [1, 1]


@case("guard")
async def what_happened_is_counted(at: Arena) -> None:
    source = Source(at, 2.0)
    ours, theirs = at.guard(ttl=60), at.rival_guard(ttl=60)

    async def first() -> int:
        return int(await ours.get(source.compute()))

    actor = at.start(first)
    await at.until(lambda: source.calls == 1)
    await theirs.get(source.compute())
    await actor.result()
    await ours.get(source.compute())
    await theirs.stats()
    seen = await ours.stats()
    assert (seen.computes, seen.misses, seen.waits, seen.failures) == (1, 1, 1, 0)
    assert seen.hits == 2
    (record,) = await at.others.guards(at.name)
    assert record.name == at.name
    assert record.tally == seen
