"""Refresh guards on Redis: lost replies, dead servers, the rights."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.core.finding import Level
from holdfast.core.guard.model import Entry
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.blocking.doctor.rights import VALUES
from holdfast.stores.redis.value_calls import ValueRequests
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import HOLD_REPLY, Fault, Proxy
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program, program
from tests.stores.examined import one as finding_of
from tests.stores.queue_lost import RESETS
from tests.stores.redis.added import added
from tests.stores.redis.aio.test_faults import Liar
from tests.stores.redis.conftest import Counted, MakeClient, eventually
from tests.stores.redis.test_rights import PASSWORD, USER, rights
from tests.stores.refresh_lost import *  # noqa: F403
from tests.torture.scale import times

lag.watch()
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
    raise LookupError("no value")


async def compute_of(key: str) -> str:
    return f"of {key}"


def keys_of(guard: str, key: str = "") -> tuple[bytes, bytes]:
    """Return the keys of the value and of the refresh lease."""
    place = ValueRequests().place(Entry(guard, key))
    value, duty = (one.split(b"\r\n")[1] for one in (place.value, place.duty))
    return value, duty


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


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_read_that_is_cancelled_keeps_its_place(
    protocol: int, proxy: Proxy, own_name: str
) -> None:
    """The replies of the cancelled read arrive later, and no other read gets them."""

    async def main() -> None:
        async with AsyncClient(f"redis://127.0.0.1:{proxy.port}?protocol={protocol}") as client:
            guard = client.guard(own_name, ttl=60)
            expected = await guard.get_many(["a", "b", "c"], compute_of)
            for number in range(TRIES):
                held = proxy.arm(b"\r\nGET\r\n" if number % 2 else b"\r\nPTTL\r\n", HOLD_REPLY)
                reading = asyncio.create_task(guard.get_many(["a", "b"], compute_of))
                await asyncio.to_thread(held.wait)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                held.let_go()
                found = await guard.get_many(["c", "a"], compute_of)
                assert found == {key: expected[key] for key in "ca"}

    asyncio.run(main())


@pytest.mark.parametrize("crew", [1, 2, 50])
def test_no_reader_gets_the_value_of_another_from_a_server_that_answers_once_too_often(
    crew: int, shared_redis: RedisServer, own_name: str
) -> None:
    async def main() -> None:
        async with (
            Liar(shared_redis).listening() as liar,
            AsyncClient(f"redis://127.0.0.1:{liar.port}") as client,
        ):
            guard = client.guard(own_name, ttl=60)
            keys = [str(number) for number in range(crew)]
            expected = await guard.get_many(keys, compute_of)
            for _ in range(times(30, 5)):
                liar.twice = 1
                reads = [guard.get_many([key], compute_of) for key in keys]
                assert await asyncio.gather(*reads) == [{key: expected[key]} for key in keys]

    asyncio.run(main())


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


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("kind", ["string", "list"])
@pytest.mark.parametrize("place", [0, 1], ids=["value", "duty"])
def test_keys_of_others_are_named_and_left_alone(
    place: int, kind: str, face: Face, new_redis: NewRedis
) -> None:
    server, key = new_redis(), keys_of("g")[place]

    async def compute() -> int:
        return 1

    async def main() -> None:
        async with face.client(server.url) as client:
            guard = client.guard("g", ttl=60)
            for act in (lambda: guard.get(compute), guard.invalidate, guard.inspect):
                with pytest.raises(ConfigError, match="another program"):
                    await act()
            assert await guard.get(compute, key="other") == 1

    with server.client() as admin:
        (admin.set if kind == "string" else admin.rpush)(key, "mine" * 20)
        before = admin.dump(key)
        face.run(main, 60.0)
        assert admin.dump(key) == before


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

        # (while one computes, another waits)
        thread = threading.Thread(target=guards[0].get, args=(slow,))
        thread.start()
        inside.wait(10)
        guards[1].get(Source())
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


def test_doctor_lists_the_missing_rights_and_recognises_the_keys(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    assert {word[1:] for word in added("rights for guards")} == VALUES
    server = new_redis(users=(" ".join([*rights(), "+getrange"]),))
    finding = finding_of(server.url_for(USER, PASSWORD), "values")
    assert finding.level is Level.WARN
    assert finding.remedy.split()[-3:] == ["+hincrby", "+strlen", "+zrange"]
    guard = new_client(server.url).guard("g", ttl=60)
    guard.get(Source())
    with pytest.raises(LookupError):
        new_client(server.url).guard("g", ttl=60, failure_ttl=60).get(fail, key="x")
    guard.stats()
    assert finding_of(server.url, "values").level is Level.OK
    assert finding_of(server.url, "keys").level is Level.OK
