"""Small traps of queues and guards; each of them has caught a user."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from holdfast import Client, ConfigError, HoldfastError, LockLost, Loss, StoreUnavailable
from holdfast.core.queue import queue as core
from holdfast.core.queue.model import TooLarge
from holdfast.stores.memory import blocking as memory
from holdfast.stores.memory.jobs import LIFE_S
from holdfast.testing.conformance.struck import FOREVER, Overlaid
from tests.faced import At


@pytest.mark.parametrize("there", [True, False])
async def test_the_next_job_in_a_with_statement_or_none(at: At, there: bool) -> None:
    queue = at.queue()
    if there:
        await queue.put("a")
    async with queue.taking(timeout=0) as job:
        assert (job and job.payload) == ("a" if there else None)
    assert (await queue.stats()).done == int(there)


@pytest.mark.parametrize("what", [KeyError, SystemExit, GeneratorExit, asyncio.CancelledError])
async def test_a_body_that_is_ended_by_itself_has_failed(at: At, what: type[BaseException]) -> None:
    queue = at.queue(max_attempts=1)
    await queue.put("a")

    async def body() -> None:
        async with queue.taking() if what is KeyError else await queue.take(timeout=5):
            raise what

    with pytest.raises(what):
        await body()
    await at.stands(dead=1)


async def test_a_body_that_awaits_a_future_cancelled_elsewhere_has_failed(aio: At) -> None:
    queue = aio.queue(retry_delay=0, retry_delay_max=0)
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with await aio.taken(queue):
            await gone
    (one,) = await queue.jobs("waiting")
    assert one.attempts == 1


async def test_many_jobs_are_put_in_requests_that_the_store_takes(at: At) -> None:
    queue, flaky = at.flaky()
    inner = flaky.verbs
    sizes = []

    async def small(one: Any, within: float) -> Any:
        if sum(len(job.payload) for job in one.jobs) > 1000:
            raise TooLarge("too much")
        sizes.append(len(one.jobs))
        return await inner.put(one, within)

    flaky.verbs = Overlaid(inner, put=small)
    payloads = ["x" * 100] * 40 + ["y" * 5] * 40
    receipts = await queue.put_many(payloads, group="g")
    assert len({one.id for one in receipts}) == sum(sizes) == 80
    assert [job.payload async for job in at.queue().consume(timeout=0)] == payloads
    with pytest.raises(TooLarge, match=r"first 1 of 2 jobs were accepted; then: too much"):
        await queue.put_many(["x", "x" * 2000])


async def test_the_error_of_a_failed_put_counts_the_accepted_jobs(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "PUT_S", 0.2)
    queue, flaky = at.flaky()
    flaky.arrived = lambda verbs: flaky.down.update(put=FOREVER)
    with pytest.raises(StoreUnavailable, match="first 1000 of 1500 jobs were accepted; then"):
        await queue.put_many(range(1500))


@pytest.mark.parametrize(
    "failure", [HoldfastError("planted"), LockLost("planted", Loss.BROKEN)], ids=["text", "reason"]
)
async def test_every_error_of_a_put_counts_the_accepted_jobs(
    at: At, failure: HoldfastError
) -> None:
    queue, flaky = at.flaky()

    def second(verbs: object) -> None:
        if flaky.calls["put"] > 1:
            raise failure

    flaky.arrived = second
    with pytest.raises(type(failure)) as found:
        await queue.put_many(range(1500))
    said = [str(found.value), *getattr(found.value, "__notes__", [])]
    assert any("first 1000 of 1500 jobs were accepted" in one for one in said)
    assert getattr(found.value, "reason", None) is getattr(failure, "reason", None)


def test_an_unused_queue_in_memory_is_forgotten() -> None:
    space = memory.space("test-forgotten")
    with Client("memory://test-forgotten") as client:
        for number in range(200):
            queue = client.queue(f"q{number}")
            queue.put("x", id="known", group="g")
            assert [job.payload for job in queue.consume(timeout=0)] == ["x"]
        client.queue("kept").put("x")
        assert len(space.queues) == 201
        space.skew += LIFE_S + 1
        for number in range(200):
            client.queue(f"new{number}").put("x")
        assert not [one for one in space.queues if one.startswith("q")]
        assert client.queue("kept").stats().waiting == 1


async def test_a_value_that_is_damaged_is_computed_again(at: At) -> None:
    guard = at.guard(local_ttl=5)
    values = memory.space(at.space).stored

    async def compute(key: str = "") -> str:
        return "whole"

    for damage in (b"x", b"", b"j{", b"t\xff", b"j" + b"[" * 100_000):
        for several in (False, True):
            assert await guard.get(compute, key="a") == "whole"
            (entry,) = values._entries.values()
            entry.value.data = damage  # type: ignore[union-attr]
            guard._near.forget("a")
            if several:
                assert await guard.get_many(["a"], compute) == {"a": "whole"}
            else:
                assert await guard.get(compute, key="a") == "whole"


async def test_several_values_are_computed_while_the_store_is_away(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, away = at.gated(on_store_error="compute")
    away.down.update(dict.fromkeys(("read", "begin", "tally"), FOREVER))
    begun = time.monotonic()

    async def compute(key: str = "") -> str:
        return key * 2

    assert await guard.get_many(["a", "b", "c"], compute) == {"a": "aa", "b": "bb", "c": "cc"}
    assert time.monotonic() - begun < 3
    monkeypatch.setattr("holdfast.core.guard.refresh.SILENCE_S", 0.2)
    assert await guard.get(compute) == ""
    strict = at._clients[0].guard("h", ttl=60)
    for ask in (lambda: strict.get_many(["a"], compute), lambda: strict.get(compute)):
        with pytest.raises(StoreUnavailable, match="planted"):
            await ask()


@pytest.mark.parametrize("what", [SystemExit, asyncio.CancelledError])
async def test_a_computation_that_ends_by_itself_is_a_failure(
    at: At, what: type[BaseException]
) -> None:
    guard = at.guard(failure_ttl=30)

    async def compute() -> str:
        raise what

    with pytest.raises(what):
        await guard.get(compute)
    assert (await guard.inspect()).failures == 1


def test_a_function_whose_values_would_be_shared_by_all_its_users_is_refused() -> None:
    with Client("memory://") as client:
        with pytest.raises(ConfigError, match=r"no \{user_id\}.*vary=\(\)"):

            @client.cached("user-all", ttl=3)
            def all_users(user_id: int) -> int:
                return user_id

        with pytest.raises(ConfigError, match=r"no \{fields\}.*'u:\{user_id\}:\{fields\}'"):

            @client.cached("u:{user_id}", ttl=3)
            def one_user(user_id: int, *fields: str) -> int:
                return user_id

        with pytest.raises(ConfigError, match="no such parameter"):
            client.cached("v:{a}", ttl=3, vary=("a", "b"))(lambda a: a)
        with pytest.raises(ConfigError, match="vary must be several"):
            client.cached("v:{a}", ttl=3, vary="a")(lambda a: a)
        with pytest.raises(ConfigError, match="nothing between them"):
            client.cached("v:{a}{b}", ttl=3)(lambda a, b: a)

        @client.cached("user-said", ttl=3, vary=())
        def said(session: object) -> int:
            return 7

        @client.cached("user:{user_id}", ttl=3, vary=["user_id"])
        def one(user_id: int, session: object = None) -> int:
            return user_id

        assert (said(object()), one(1), one(2, object()), one(1)) == (7, 1, 2, 1)

        with pytest.raises(ConfigError, match="a separate template"):

            @client.cached("user:{user_id}", ttl=3)
            def other(user_id: int) -> str:
                return "secret"


def test_two_calls_share_a_value_only_if_all_their_fields_are_equal() -> None:
    with Client("memory://") as client:

        @client.cached("may:{user}:{thing!s}/{deep[0]}", ttl=30)
        def may(user: str, thing: str, deep: str = "d") -> list[str]:
            return [user, thing, deep]

        asked = [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("a", "b%3Ac"), ("a", "b", "/")]
        for some in (*asked, *asked):
            assert may(*some)[:2] == list(some)[:2]
        client.cached("é:{a}→{b}", ttl=3)(lambda a, b: a)("x→", "y")


def test_a_template_that_a_call_cannot_fill_is_an_error() -> None:
    with Client("memory://") as client:

        @client.lock("job:{args[0]}")
        def work(*args: int) -> None: ...

        with pytest.raises(ConfigError, match=r"can't be filled.*IndexError"):
            work()

        @client.cached("{user.id}", ttl=3)
        def get(user: object) -> None: ...

        with pytest.raises(ConfigError, match=r"can't be filled.*AttributeError"):
            get(None)


async def test_an_async_cached_function_is_checked_as_well(aio: At) -> None:
    with pytest.raises(ConfigError, match=r"no \{user_id\}"):

        @aio.client().cached("user-async", ttl=3)
        async def all_users(user_id: int) -> int:
            return user_id
