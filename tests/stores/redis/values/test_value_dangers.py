"""Faults of a refresh guard on Redis (lost replies, dead servers), and the cost of its verbs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.core.guard.model import Entry
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import ABANDON, BEGIN, FINISH, INVALIDATE, PROLONG, Script
from holdfast.stores.redis.value_calls import ValueRequests
from holdfast.testing import lag
from holdfast.testing.faults import HOLD_REPLY, RESET_REPLY, RESET_REQUEST, RESP, Fault, Proxy
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program, program
from tests.stores.redis.aio.test_faults import Liar
from tests.stores.redis.conftest import MakeClient, eventually
from tests.stores.redis.test_trips import Counted, cost
from tests.torture.scale import times

lag.watch()
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(100, 3)
#: A lease that outlasts every wait of these tests.
LONG_S = 60.0


class Source:
    """A computation that returns the number of its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls


def fail() -> int:
    raise LookupError("in vain")


def keys_of(guard: str, key: str = "") -> tuple[bytes, bytes]:
    """Return the keys of the value and of the refresh lease."""
    place = ValueRequests().place(Entry(guard, key))
    value, duty = (one.split(b"\r\n")[1] for one in (place.value, place.duty))
    return value, duty


# -- lost replies ----------------------------------------------------------------------------


@RESETS
@pytest.mark.parametrize("script", [BEGIN, FINISH], ids=["begin", "finish"])
def test_a_value_is_computed_and_stored_once_though_a_verb_is_cut_off(
    script: Script, fault: Fault, by_proxy: Client, other: Client, proxy: Proxy, own_name: str
) -> None:
    ours, theirs = (one.guard(own_name, ttl=600, lease=LONG_S) for one in (by_proxy, other))
    for number in range(TRIES):
        source, key = Source(), str(number)
        armed = proxy.arm(script.sha, fault)
        assert ours.get(source, key=key) == 1
        assert armed.hits == 1
        assert theirs.get(source, key=key, timeout=5) == 1
        assert source.calls == 1
        assert theirs.inspect(key).owner == ""
    assert theirs.stats().refused == ours.stats().refused == 0


@RESETS
def test_a_failed_computation_leaves_no_waiter_blocked_though_cut_off(
    fault: Fault, by_proxy: Client, other: Client, proxy: Proxy, own_name: str
) -> None:
    ours, theirs = (one.guard(own_name, ttl=600, lease=LONG_S) for one in (by_proxy, other))
    for number in range(TRIES):
        armed = proxy.arm(ABANDON.sha, fault)
        with pytest.raises(LookupError):
            ours.get(fail, key=str(number))
        assert theirs.get(Source(), key=str(number), timeout=10) == 1
        # The abandon request waits for one second at most, and the machine can stall for that time.
        armed.wait()


@RESETS
def test_what_is_invalidated_is_gone_though_that_is_cut_off(
    fault: Fault, by_proxy: Client, other: Client, proxy: Proxy, own_name: str
) -> None:
    ours, theirs = (one.guard(own_name, ttl=600) for one in (by_proxy, other))
    source = Source()
    for number in range(TRIES):
        assert theirs.get(source) == number + 1
        armed = proxy.arm(INVALIDATE.sha, fault)
        ours.invalidate()
        assert armed.hits == 1


@RESETS
@pytest.mark.parametrize("word", [b"PTTL", b"GET"])
def test_a_read_that_is_cut_off_is_done_again(
    word: bytes, fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    guard = by_proxy.guard(own_name, ttl=600)
    source = Source()
    for _ in range(TRIES):
        assert guard.get(source) == 1
        value, _ = keys_of(own_name)
        armed = proxy.arm(b"%b\r\n$%d\r\n%b\r\n" % (word, len(value), value), fault)
        assert guard.get(source) == 1
        assert armed.hits == 1


def test_a_renewal_that_is_cut_off_loses_no_refresh_lease(
    new_client: MakeClient, other: Client, proxy: Proxy, own_name: str
) -> None:
    client = new_client(f"redis://127.0.0.1:{proxy.port}")
    guard = client.guard(own_name, ttl=60, lease=3.0)
    armed = proxy.arm(PROLONG.sha, RESET_REPLY)

    def slow() -> int:
        armed.wait()
        time.sleep(0.1)
        return 1

    assert guard.get(slow) == 1
    assert other.guard(own_name, ttl=60).get(Source(), timeout=0) == 1
    assert guard.stats().refused == 0


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_read_that_is_cancelled_keeps_its_place(
    protocol: int, proxy: Proxy, own_name: str
) -> None:
    """The replies of the cancelled read arrive later, and no other read gets them."""

    async def main() -> None:
        async def compute(key: str) -> str:
            return f"of {key}"

        async with AsyncClient(f"redis://127.0.0.1:{proxy.port}?protocol={protocol}") as client:
            guard = client.guard(own_name, ttl=60)
            expected = await guard.get_many(["a", "b", "c"], compute)
            for number in range(TRIES):
                held = proxy.arm(b"\r\nGET\r\n" if number % 2 else b"\r\nPTTL\r\n", HOLD_REPLY)
                reading = asyncio.create_task(guard.get_many(["a", "b"], compute))
                await asyncio.to_thread(held.wait)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                held.let_go()
                assert await guard.get_many(["c", "a"], compute) == {
                    key: expected[key] for key in ("c", "a")
                }

    asyncio.run(main())


@pytest.mark.parametrize("crew", [1, 2, 50])
def test_no_reader_gets_the_value_of_another_from_a_server_that_answers_once_too_often(
    crew: int, shared_redis: RedisServer, own_name: str
) -> None:
    async def main() -> None:
        async def compute(key: str) -> str:
            return f"of {key}"

        async with (
            Liar(shared_redis).listening() as liar,
            AsyncClient(f"redis://127.0.0.1:{liar.port}") as client,
        ):
            guard = client.guard(own_name, ttl=60)
            keys = [str(number) for number in range(crew)]
            expected = await guard.get_many(keys, compute)
            for _ in range(times(30, 5)):
                liar.twice = 1
                reads = [guard.get_many([key], compute) for key in keys]
                assert await asyncio.gather(*reads) == [{key: expected[key]} for key in keys]

    asyncio.run(main())


# -- servers that die, and full servers ------------------------------------------------------


def test_a_server_that_forgets_costs_one_more_computation(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    guard = new_client(f"{server.url}?recovery=off").guard("g", ttl=60, lease=LONG_S)
    source = Source()

    def forgotten() -> str:
        server.restart(data=False)
        return "computed before"

    assert guard.get(forgotten) == "computed before"
    assert guard.get(source) == 1
    assert guard.get(source) == 1
    assert guard.stats().refused == 1


@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
def test_without_memory_a_computed_value_is_still_returned(
    old: bool,
    new_redis: NewRedis,
    new_client: MakeClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = new_redis(server=old_program() if old else program())
    guard = new_client(server.url).guard("g", ttl=60, lease=LONG_S)
    guard.get(lambda: "there", key="before")

    def full() -> int:
        server.ask("CONFIG", "SET", "maxmemory", "1")
        return 1

    begun = boottime()
    assert guard.get(full) == 1
    assert boottime() - begun < LONG_S / 2
    assert "was computed, but not stored" in caplog.text
    assert "no memory left" in caplog.text
    assert guard.get(lambda: 2, timeout=5) == 2
    # The stored value can still be read, and can be invalidated
    assert guard.get(Source(), key="before") == "there"
    assert guard.invalidate("before") == 1
    # And no caller waits for the computation whose value could not be stored
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert guard.inspect().owner == ""
    assert guard.get(lambda: 3, timeout=5) == 3
    assert guard.get(lambda: 4, timeout=5) == 3


# -- keys of other programs ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["string", "list"])
@pytest.mark.parametrize("place", [0, 1], ids=["value", "duty"])
def test_keys_of_others_are_named_and_left_alone(
    place: int, kind: str, new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    guard = new_client(server.url).guard("g", ttl=60)
    key = keys_of("g")[place]
    with server.client() as admin:
        if kind == "string":
            admin.set(key, "mine" * 20)
        else:
            admin.rpush(key, "mine")
        before = admin.dump(key)
        for act in (lambda: guard.get(Source()), guard.invalidate, guard.inspect):
            with pytest.raises(ConfigError, match="another program"):
                act()
        assert admin.dump(key) == before

        async def with_a_loop() -> None:
            async with AsyncClient(server.url) as client:
                asked = client.guard("g", ttl=60)

                async def compute() -> int:
                    return 1

                with pytest.raises(ConfigError, match="another program"):
                    await asked.get(compute)
                assert await asked.get(compute, key="other") == 1

        asyncio.run(with_a_loop())


# -- remaining keys, and costs ---------------------------------------------------------------


def test_nothing_is_left_but_what_ends(new_redis: NewRedis, new_client: MakeClient) -> None:
    server = new_redis()
    client, other = new_client(server.url), new_client(server.url)
    guards = [one.guard("g", ttl=0.2, failure_ttl=0.05, lease=LONG_S) for one in (client, other)]
    with server.client() as admin:
        before = set(admin.keys())
        inside = threading.Event()

        def slow() -> int:
            inside.set()
            time.sleep(0.2)
            return 1

        threads = [threading.Thread(target=guards[0].get, args=(slow,))]
        threads[0].start()
        inside.wait(10)
        threads.append(threading.Thread(target=guards[1].get, args=(Source(),)))
        threads[1].start()
        for thread in threads:
            thread.join(20)
        for number in range(20):
            guards[0].get(Source(), key=str(number))
        with pytest.raises(LookupError):
            guards[0].get(fail, key="failing")
        guards[0].stats()
        # Only the failure is remembered after its refresh lease, and every key has an expiry
        made = set(admin.keys()) - before
        assert not [key for key in made if admin.pttl(key) == -1]
        assert len([key for key in made if b"%" in key]) == 1
        eventually(lambda: not [one for one in admin.keys("holdfast:*=*") if admin.exists(one)])


@pytest.fixture
def counter(shared_redis: RedisServer) -> Iterator[Counted]:
    with Counted(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.mark.parametrize("protocol", [3, 2])
def test_what_it_costs(
    protocol: int, counter: Counted, new_client: MakeClient, own_name: str
) -> None:
    """A hit is two plain commands; a miss is two scripts more; each other verb is one script."""
    client = new_client(f"redis://127.0.0.1:{counter.port}?protocol={protocol}")
    guard = client.guard(own_name, ttl=600, stale=600)
    guard.get(Source())
    read = 2

    def many(count: int) -> Callable[[], object]:
        return lambda: guard.get_many([str(n) for n in range(count)], int)

    assert cost(counter, lambda: guard.get(Source())) == read
    assert cost(counter, lambda: guard.get(Source(), key="other")) == read + 2
    assert cost(counter, lambda: guard.get(Source(), key="other")) == read
    assert cost(counter, many(50)) == 50 * read + 50 * (read + 2)
    assert cost(counter, many(50)) == 50 * read
    assert cost(counter, lambda: guard.invalidate("other")) == 1
    assert cost(counter, guard.inspect) == 1


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_waiter_for_a_value_is_woken_and_reads_once(
    protocol: int, counter: Counted, new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client(f"redis://127.0.0.1:{counter.port}?protocol={protocol}")
    ours, theirs = (one.guard(own_name, ttl=600, lease=LONG_S) for one in (client, other))
    late, asked = [], []
    for number in range(times(100, 5)):
        key, go, inside = str(number), threading.Event(), threading.Event()

        def slow(go: threading.Event = go, inside: threading.Event = inside) -> int:
            inside.set()
            go.wait(20)
            return 1

        thread = threading.Thread(target=theirs.get, args=(slow,), kwargs={"key": key})
        thread.start()
        inside.wait(20)
        before = counter.requests
        found: list[Any] = []
        waiter = threading.Thread(target=lambda k=key, f=found: f.append(ours.get(fail, key=k)))
        waiter.start()
        eventually(lambda before=before: counter.requests >= before + 3)  # type: ignore[misc]
        time.sleep(0.05)
        begun = boottime()
        go.set()
        waiter.join(20)
        late.append(boottime() - begun - lag.since(begun))
        asked.append(counter.requests - before)
        thread.join(20)
        assert found == [1]
    late.sort()
    print(f"woken after {late[len(late) // 2] * 1e3:.2f} ms, at worst {late[-1] * 1e3:.2f} ms")
    # At least half of the waiters are woken long before they would poll
    assert late[len(late) // 2] < 0.4
    # Two requests to read, one to ask, one after the wake-up; the first waiter also subscribes
    assert min(asked) == 4
