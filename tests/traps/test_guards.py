"""Traps of cached values: the caller that computes, the other callers, and late writes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest
import redis

from holdfast import Client, Guard
from tests.traps.naive_guards import GetOrCompute, LockThenLook, SetNxThenPoll

Plain = Callable[[], redis.Redis]
Made = Callable[..., Guard]
#: Number of callers that request a value at the same time.
MANY = 8
#: Maximum seconds of any act.
BOUND_S = 30.0


@pytest.fixture
def guards(redis_url: str, own_name: str) -> Iterator[Made]:
    """Return a function that makes the test's guard, with a new client for each call."""
    with contextlib.ExitStack() as ends:

        def make(**options: Any) -> Guard:
            client = ends.enter_context(Client(redis_url))
            if not client.supports("guards"):
                client = ends.enter_context(Client(f"memory://{own_name}"))
            return client.guard(own_name, **{"ttl": 60, **options})

        yield make


class Source:
    """The source of the value; it counts its calls, and the largest number of calls at the same
    time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.version = b"1"
        self.asked = self.inside = self.most = 0
        self._lock = threading.Lock()

    def __call__(self) -> bytes:
        with self._lock:
            self.asked += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
            seen = self.version
        threading.Event().wait(self.seconds)
        with self._lock:
            self.inside -= 1
        return seen


def test_naive_callers_all_compute_a_value_that_is_missing(plain: Plain, own_name: str) -> None:
    source, looked = Source(), threading.Barrier(MANY)
    callers = [GetOrCompute(plain(), lambda: looked.wait(BOUND_S)) for _ in range(MANY)]
    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(lambda one: one.get(own_name, source), callers))
    assert source.asked == MANY


def test_of_callers_of_holdfast_one_computes_a_missing_value(guards: Made) -> None:
    source, came = Source(0.2), threading.Barrier(MANY)
    made = [guards(), guards()]

    def ask(number: int) -> bytes:
        came.wait(BOUND_S)
        return made[number % 2].get(source)

    with ThreadPoolExecutor(MANY) as pool:
        assert list(pool.map(ask, range(MANY))) == [b"1"] * MANY
    assert source.asked == 1


def test_a_naive_mark_whose_owner_died_keeps_all_from_computing(
    plain: Plain, own_name: str
) -> None:
    # Given a client that dies between its mark and its computation
    def die_here() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        SetNxThenPoll(plain(), die_here).get(own_name, Source(), looks=1)
    # Then the others poll until the mark expires; the mark must be long, so this takes long
    assert SetNxThenPoll(plain()).get(own_name, Source(), looks=100) is None
    assert plain().pttl(own_name + ":busy") > 20_000


def test_a_mark_that_expires_early_makes_others_compute_too(plain: Plain, own_name: str) -> None:
    source, quick = Source(), SetNxThenPoll(plain())

    def meanwhile() -> None:
        while plain_client.exists(own_name + ":busy"):
            threading.Event().wait(0.01)
        assert quick.get(own_name, source, looks=1) == b"1"

    plain_client = plain()
    slow = SetNxThenPoll(plain_client, meanwhile, lease=50)
    assert slow.get(own_name, source, looks=1) == b"1"
    assert source.asked == 2


def test_a_dead_caller_of_holdfast_is_replaced_once_its_lease_expires(guards: Made) -> None:
    source, dying = Source(0.2), guards(lease=0.5)
    inside, never = threading.Event(), threading.Event()

    def hang() -> bytes:
        dying._ctx.keeper.stop()  # as in a process that was killed
        inside.set()
        never.wait(BOUND_S)
        return b"late"

    made = [guards(), guards()]
    with ThreadPoolExecutor(MANY + 1) as pool:
        late = pool.submit(dying.get, hang)
        assert inside.wait(BOUND_S)
        asked = [pool.submit(made[n % 2].get, source) for n in range(MANY)]
        assert [one.result(BOUND_S) for one in asked] == [b"1"] * MANY
        never.set()
        assert late.result(BOUND_S) == b"late"
    assert source.asked == 1
    # The late result overwrites nothing
    assert guards().get(source) == b"1"


def test_a_computation_longer_than_its_lease_is_not_repeated(guards: Made) -> None:
    source, ours, theirs = Source(5.0), guards(lease=4), guards(lease=4)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(one.get, source) for one in (ours, theirs)]
        assert [one.result(BOUND_S) for one in asked] == [b"1"] * 2
    assert (source.asked, source.most) == (1, 1)


def test_a_naive_value_from_before_an_invalidation_is_written_after_it(
    plain: Plain, own_name: str
) -> None:
    source, other = Source(), GetOrCompute(plain())

    def compute() -> bytes:
        seen = source()
        source.version = b"2"
        other.invalidate(own_name)  # as whoever changed the source should
        return seen

    GetOrCompute(plain()).get(own_name, compute)
    # Then all callers get the old value while it is cached
    assert other.get(own_name, source) == b"1"


def test_a_value_computed_before_an_invalidation_is_not_stored(guards: Made) -> None:
    source, ours, theirs = Source(), guards(), guards()

    def compute() -> bytes:
        seen = source()
        source.version = b"2"
        theirs.invalidate()
        return seen

    assert ours.get(compute) == b"1"
    assert theirs.get(source) == ours.get(source) == b"2"


def test_the_holder_of_a_naive_lock_blocks_all_readers_of_the_value(
    plain: Plain, own_name: str
) -> None:
    # Given a cached value, and a client that holds the lock and is paused
    assert LockThenLook(plain()).get(own_name, Source()) == b"1"
    others: list[bytes | None] = []
    behind = LockThenLook(plain())
    paused = LockThenLook(plain(), lambda: others.append(behind.get(own_name, Source())))
    assert paused.get(own_name, Source()) == b"1"
    # Then the next client doesn't get the value
    assert others == [None]


def test_a_waiter_for_a_value_of_holdfast_blocks_no_other_caller(guards: Made) -> None:
    go, paused, draw = threading.Event(), threading.Event(), iter([True])

    class Slow:
        """A codec that pauses its first call of ``decode`` in a waiter, like a waiter that is
        swapped out."""

        def encode(self, value: bytes) -> bytes:
            return value

        def decode(self, data: bytes) -> bytes:
            if threading.current_thread().name.startswith("waits") and next(draw, False):
                paused.set()
                assert go.wait(BOUND_S)
            return data

    source = Source(0.3)
    ours, theirs = guards(codec=Slow()), guards(codec=Slow())
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(MANY, "waits") as pool:
        computed = first.submit(ours.get, source)
        asked = [pool.submit(theirs.get, source) for _ in range(MANY)]
        assert computed.result(BOUND_S) == b"1"
        assert paused.wait(BOUND_S)
        # Then all other callers continue, although this waiter is paused
        over = as_completed(asked, BOUND_S)
        assert [next(over).result() for _ in range(MANY - 1)] == [b"1"] * (MANY - 1)
        go.set()
        assert [one.result(BOUND_S) for one in asked] == [b"1"] * MANY
    assert source.asked == 1
