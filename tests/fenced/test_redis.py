"""Fenced keys of a Redis: late writes are refused, whatever client sends them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel

from holdfast import AsyncClient, Client, ConfigError, FenceRejected, LockLost, NotHeld
from holdfast.fenced import AsyncFencedRedis, FencedRedis
from holdfast.fenced import redis as fenced_redis
from tests.servers.cluster import Cluster
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.servers.sentinels import NAME, Watched

SEED = random.SystemRandom().randrange(1 << 32)


class Face:
    """A fenced writer of either face, called without await, and a client to look at its keys."""

    def __init__(self, server: RedisServer, face: str, **options: Any) -> None:
        self.look = server.client()
        self._runner = asyncio.Runner()
        port = {"host": server.host, "port": server.port}
        self.fenced: Any
        self.client: Any
        if face == "asyncio":
            self.client = redis.asyncio.Redis(**port, **options)
            self.fenced = AsyncFencedRedis(self.client)
        else:
            self.client = redis.Redis(**port, **options)
            self.fenced = FencedRedis(self.client)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.fenced, name)

        def call(*args: Any, **options: Any) -> Any:
            found = method(*args, **options)
            if asyncio.iscoroutine(found):
                return self._runner.run(found)
            return found

        return call

    def close(self) -> None:
        self.look.close()
        if isinstance(self.fenced, AsyncFencedRedis):
            self._runner.run(self.client.aclose())
        else:
            self.client.close()
        self._runner.close()


@pytest.fixture(params=["threads", "asyncio"])
def face(request: pytest.FixtureRequest, shared_redis: RedisServer) -> Iterator[Face]:
    made = Face(shared_redis, request.param)
    yield made
    made.close()


def test_a_smaller_fence_is_refused_and_nothing_is_written(face: Face, own_name: str) -> None:
    face.set(7, own_name, "seven")
    with pytest.raises(FenceRejected) as told:
        face.set(6, own_name, "six")
    # Then the error names the key and both fences
    for part in (own_name, "fence 6", "fence 7"):
        assert part in str(told.value)
    assert (told.value.fence, told.value.greatest) == (6, 7)
    assert face.look.get(own_name) == b"seven"
    assert face.fence(own_name) == 7


def test_equal_and_greater_fences_are_accepted_and_keys_are_apart(
    face: Face, own_name: str
) -> None:
    # Also fences greater than Lua's numbers
    for fence in (3, 3, 9, 10, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1):
        face.set(fence, own_name, "x")
        with pytest.raises(FenceRejected):
            face.set(fence - 1, own_name, "late")
    face.set(1, f"{own_name}-other", "1")
    assert face.fence(own_name) == 2**63 - 1
    assert face.fence(f"{own_name}-other") == 1
    assert face.fence(f"{own_name}-none") == 0


def test_any_command_of_one_key_is_fenced(face: Face, own_name: str) -> None:
    assert face.execute(1, "HSET", own_name, "state", "paid", "by", b"\xff\0") == 2
    assert face.execute(2, "hget", own_name, "nothing") is None
    assert face.execute(2, "HGETALL", own_name) == [b"state", b"paid", b"by", b"\xff\0"]
    with pytest.raises(FenceRejected):
        face.execute(1, "HSET", own_name, "state", "late")
    with pytest.raises(FenceRejected):
        face.delete(1, own_name)
    assert face.look.hget(own_name, "state") == b"paid"
    assert face.delete(3, own_name)
    assert not face.delete(3, own_name)
    # And the fence is still known
    with pytest.raises(FenceRejected):
        face.set(2, own_name, "late")


def test_a_value_with_an_end_leaves_its_fence(face: Face, own_name: str) -> None:
    face.set(4, own_name, "x", ttl=0.05)
    assert face.look.pttl(own_name) <= 50
    face.execute(4, "DEL", own_name)
    assert face.look.ttl(face.fence_key(own_name)) == -1
    with pytest.raises(FenceRejected):
        face.set(3, own_name, "late")


def test_a_command_that_is_refused_is_the_driver_s_own_error(face: Face, own_name: str) -> None:
    face.set(1, own_name, "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        face.execute(2, "LPUSH", own_name, "y")
    # The fence was recorded first, so older writers are refused, which is right
    assert face.fence(own_name) == 2


def test_a_foreign_key_in_the_place_of_the_fence_is_left_alone(face: Face, own_name: str) -> None:
    face.look.set(face.fence_key(own_name), "mine")
    for call in (lambda: face.set(1, own_name, "x"), lambda: face.fence(own_name)):
        with pytest.raises(ConfigError, match=r"#fence.*another program"):
            call()
    assert face.look.get(face.fence_key(own_name)) == b"mine"
    assert face.look.get(own_name) is None


def test_a_flush_of_the_scripts_causes_no_error(face: Face, own_name: str) -> None:
    for fence in (1, 2):
        face.set(fence, own_name, "x")
        face.look.script_flush()
    with pytest.raises(FenceRejected):
        face.set(1, own_name, "late")


def test_a_hold_is_asked_first(face: Face, own_name: str) -> None:
    class Hold:
        fence = 5

        def check(self) -> None:
            raise LockLost("lost")

    with pytest.raises(LockLost, match="lost"):
        face.set(Hold(), own_name, "x")
    assert face.look.exists(own_name, face.fence_key(own_name)) == 0


def test_the_client_of_a_sentinel_and_the_least_rights_will_do(
    new_watched: Callable[..., Watched],
) -> None:
    writer = "user writer on >secret ~* -@all +evalsha +script|load +get +set +hset"
    watched = new_watched(replicas=0, sentinels=1, users=(writer,))
    place = ("127.0.0.1", watched.sentinels[0].port)
    client = Sentinel([place]).master_for(NAME, username="writer", password="secret")
    with client:
        fenced = FencedRedis(client)
        fenced.execute(2, "HSET", "x", "state", "new")
        with pytest.raises(FenceRejected):
            fenced.execute(1, "HSET", "x", "state", "late")
        with pytest.raises(redis.ResponseError, match=r"(?i)permission|can't run"):
            fenced.delete(3, "x")
    assert watched.primary.ask("HGET", "x", "state") == b"new"


@pytest.mark.parametrize("which", ["threads", "asyncio"])
@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
def test_any_client_will_do(
    which: str, decode: bool, protocol: int, shared_redis: RedisServer, own_name: str
) -> None:
    face = Face(shared_redis, which, decode_responses=decode, protocol=protocol)
    with contextlib.closing(face):
        face.set(2, own_name, "ä")
        with pytest.raises(FenceRejected) as told:
            face.set(1, own_name, "late")
        assert (told.value.greatest, face.fence(own_name)) == (2, 2)
        assert face.execute(2, "GET", own_name) == ("ä" if decode else "ä".encode())
        # And the client stays open
        assert face.look.get(own_name) == "ä".encode()


def test_the_oldest_redis_will_do(new_redis: NewRedis) -> None:
    with new_redis(server=old_program()).client() as client:
        fenced = FencedRedis(client)
        fenced.set(2, "x", "two")
        with pytest.raises(FenceRejected):
            fenced.set(1, "x", "late")
        assert fenced.fence("x") == 2


def test_a_fence_may_be_forgotten_in_the_end(shared_redis: RedisServer, own_name: str) -> None:
    with shared_redis.client() as client:
        fenced = FencedRedis(client, remember=3600)
        fenced.set(2, own_name, "two")
        assert 3_590_000 < client.pttl(fenced.fence_key(own_name)) <= 3_600_000
        client.pexpire(fenced.fence_key(own_name), 1000)
        fenced.set(2, own_name, "two")
        assert client.pttl(fenced.fence_key(own_name)) > 3_590_000


# -- the attack ----------------------------------------------------------------------------


def attack(server: RedisServer, name: str) -> bytes | None:
    """Let a holder sleep past its lease and write after the next holder; return the final value."""
    with server.client() as client, Client(server.url) as locks:
        fenced = FencedRedis(client)
        slept = locks.lock(name, ttl=0.05, auto_renew=False).acquire()
        assert slept
        old = slept.fence
        with locks.lock(name, timeout=5) as hold:
            fenced.set(hold, name, "new")
        with contextlib.suppress(FenceRejected):
            fenced.set(old, name, "late")  # the bare number: a hold would be found out before
        return client.get(name)


def test_an_old_holder_that_wakes_up_late_changes_nothing(
    shared_redis: RedisServer, own_name: str
) -> None:
    assert attack(shared_redis, own_name) == b"new"


@pytest.mark.parametrize(
    "old, new",
    [
        ("seen > mine", "seen < mine"),
        ("#seen > #mine or (#seen == #mine and seen > mine)", "false"),
        ("redis.call('SET', KEYS[1], mine)", "redis.call('GET', KEYS[1])"),
    ],
    ids=["turned round", "left out", "not noted"],
)
def test_the_attack_finds_a_writer_that_checks_no_fence(
    old: str, new: str, shared_redis: RedisServer, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fenced_redis._SCRIPT.count(old) == 1
    monkeypatch.setattr(fenced_redis, "_SCRIPT", fenced_redis._SCRIPT.replace(old, new))
    assert attack(shared_redis, own_name) == b"late"


def test_the_holds_of_a_loop_are_fences_too(shared_redis: RedisServer, own_name: str) -> None:
    async def late() -> None:
        client = redis.asyncio.Redis(host=shared_redis.host, port=shared_redis.port)
        async with client, AsyncClient(shared_redis.url) as locks:
            fenced = AsyncFencedRedis(client)
            async with locks.lock(own_name) as hold:
                await fenced.set(hold, own_name, "first")
            # After its release, the hold itself refuses; the bare number is refused by the key
            with pytest.raises(NotHeld):
                await fenced.set(hold, own_name, "late")
            async with locks.lock(own_name) as later:
                await fenced.set(later, own_name, "second")
            with pytest.raises(FenceRejected):
                await fenced.set(hold.fence, own_name, "late")
            assert await client.get(own_name) == b"second"

    asyncio.run(late())


def test_writers_with_interleaved_fences_leave_them_in_order(
    shared_redis: RedisServer, own_name: str
) -> None:
    print(f"seed {SEED}")
    accepted: list[int] = []

    def write(who: int) -> None:
        dice = random.Random(SEED + who)
        fence = 1
        with shared_redis.client() as client:
            fenced = FencedRedis(client)
            for _ in range(200):
                fence += dice.choice((0, 0, 1, 4))
                try:
                    fenced.execute(fence, "RPUSH", own_name, fence)
                    accepted.append(fence)
                except FenceRejected as late:
                    fence = late.greatest or 0

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with shared_redis.client() as client:
        order = [int(one) for one in client.lrange(own_name, 0, -1)]
    assert order == sorted(order)
    assert order == sorted(accepted)


# -- wrong arguments -----------------------------------------------------------------------


def test_wrong_keys_fences_commands_and_times_are_refused(shared_redis: RedisServer) -> None:
    with shared_redis.client() as client:
        fenced: Any = FencedRedis(client)
        wrong: list[tuple[str, Callable[[], object]]] = [
            *(("", partial(fenced.set, fence, "x", "x")) for fence in (0, "1", 2**63)),
            *(("", partial(fenced.set, 1, key, "x")) for key in ("", 7, "a}b")),
            *(
                ("one word", partial(fenced.execute, 1, word, "x"))
                for word in ("", "SET x", "SET\n", 7, "ä")
            ),
            ("too many", partial(fenced.execute, 1, "RPUSH", "x", *range(7001))),
        ]
        for seconds in (0, -1, "1", float("nan")):
            wrong.append(("", partial(fenced.set, 1, "x", "x", ttl=seconds)))
            wrong.append(("", partial(FencedRedis, client, remember=seconds)))  # type: ignore[arg-type]
        for words, call in wrong:
            with pytest.raises(ConfigError, match=words or None):
                call()
        assert client.exists("x") == 0
        assert fenced.execute(1, "RPUSH", "many", *range(7000)) == 7000
        client.delete("many", fenced.fence_key("many"))


def test_what_is_no_client_is_refused(shared_redis: RedisServer) -> None:
    both = (FencedRedis, AsyncFencedRedis)
    with shared_redis.client() as client:
        for kind, other, words in (
            *((kind, None, "is needed") for kind in both),
            *((kind, "redis://localhost", "is needed") for kind in both),
            *((kind, client.pipeline(), "is needed") for kind in both),
            (AsyncFencedRedis, client, "use FencedRedis"),
            (FencedRedis, redis.asyncio.Redis(), "use AsyncFencedRedis"),
        ):
            with pytest.raises(ConfigError, match=words or None):
                kind(other)  # type: ignore[arg-type]


# -- the key of the fence -------------------------------------------------------------------

KEYS = ["report", "{user:7}:cart", "a{b}c{d}", "open{", "{", "ä", "with space", "{x}}"]


def test_a_key_and_its_fence_are_in_one_slot(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(replicas=0)
    first = cluster.servers[0]
    with redis.RedisCluster(host=first.host, port=first.port) as client:
        fenced = FencedRedis(client)
        for key in KEYS:
            fenced.set(2, key, "new")
            with pytest.raises(FenceRejected):
                fenced.set(1, key, "late")
            assert fenced.fence(key) == 2
            assert client.get(key) == b"new"
            slots = {first.ask("CLUSTER", "KEYSLOT", one) for one in (key, fenced.fence_key(key))}
            assert len(slots) == 1, key

    async def with_a_loop() -> None:
        async with redis.asyncio.RedisCluster(host=first.host, port=first.port) as client:
            fenced = AsyncFencedRedis(client)
            for key in KEYS:
                with pytest.raises(FenceRejected):
                    await fenced.set(1, key, "late")
                await fenced.set(3, key, "newer")
                assert await fenced.fence(key) == 3

    asyncio.run(with_a_loop())


def test_no_two_keys_have_one_fence(shared_redis: RedisServer) -> None:
    with shared_redis.client() as client:
        fenced = FencedRedis(client)
        keys = ["a", "{a}", "{a}#fence", "a#fence", "{a}!", "{a}#fence!", "b{a}"]
        assert len({fenced.fence_key(key) for key in keys}) == len(keys)
        assert fenced.fence_key("a") == fenced.fence_key(b"a")
