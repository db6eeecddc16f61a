"""Several names in one call on Redis: all or none, in one round trip, nothing left on failure."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from holdfast.core.model import Claim, Leave, LineRecord
from holdfast.stores.redis import replies
from holdfast.stores.redis.keys import PREFIX, keys_of
from holdfast.stores.redis.library import JOIN_FREE, LEAVE_ALL
from holdfast.testing import lag
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    RESP,
    Fault,
    Proxy,
    Subject,
)
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.stores.redis.conftest import Counted, MakeClient, eventually
from tests.stores.redis.guarded import Guarded
from tests.stores.redis.verbs import CLOCK, LABEL, START, Verbs, claim
from tests.torture.scale import times

Look = Callable[[str], LineRecord | None]
DROPS = pytest.mark.parametrize("fault", [DROP_REQUEST, DROP_REPLY], ids=["request", "reply"])
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
#: An acquire can exceed its time-out by this much, and by the lag of the machine.
LATER_S = 0.75
lag.watch()
#: The number of processes, and the number of names that they share.
PROCESSES, NAMES = 6, 7


def names_of(start: str, many: int = 3) -> list[str]:
    return [f"{start}:{number}" for number in range(many)]


def joined(verbs: Verbs, claims: list[Claim], tag: bytes = b"") -> list[int] | None:
    """Return the tickets of the claims if all were granted together."""
    reply = verbs.ask(verbs.requests.join_free(claims), tag)
    held = replies.let_in(reply, claims, LABEL)
    return None if held is None else [one.fence for one in held]


# -- the scripts -------------------------------------------------------------------------------


def test_what_is_written_is_what_single_joins_write(verbs: Verbs) -> None:
    for ttl in (30.0, 3600.0):
        verbs.client.flushdb()
        verbs.at(START)
        claims = [claim(f"n{number}", ttl) for number in range(3)]
        for one in claims:
            verbs.join(one)
        single = [verbs.client.hgetall(verbs.keys(one.spec.name)[0]) for one in claims]
        lives = [verbs.client.pttl(verbs.keys(one.spec.name)[0]) for one in claims]
        verbs.client.flushdb()
        verbs.at(START)
        assert joined(verbs, claims, b"7f") is not None
        for one, state, left in zip(claims, single, lives, strict=True):
            key = verbs.keys(one.spec.name)[0]
            assert verbs.client.hgetall(key) == state
            assert abs(verbs.client.pttl(key) - left) < 5000


def test_tickets_rise_whatever_the_clock_shows(verbs: Verbs) -> None:
    before = [0, 0]
    for now in (START, START, START - 3600, START + 1):
        verbs.at(now)
        claims = [claim("x"), claim("y")]
        tickets = joined(verbs, claims)
        assert tickets is not None
        assert all(one < other for one, other in zip(before, tickets, strict=True))
        before = tickets
        for one in claims:
            assert verbs.gone(one)


@pytest.mark.parametrize("there", ["holder", "waiter", "tombstone", "late copy", "foreign"])
def test_one_line_that_is_not_empty_keeps_all_of_them_out(there: str, verbs: Verbs) -> None:
    # Given
    claims = [claim(f"n{number}") for number in range(3)]
    middle = claims[1].spec.name
    if there == "holder":
        verbs.join(claim(middle))
    elif there == "waiter":
        verbs.join(claim(middle, ttl=1.0))
        verbs.join(claim(middle))
        verbs.at(START + 2)
    elif there == "tombstone":
        verbs.gone(claims[1], suspect=True)
    elif there == "late copy":
        assert joined(verbs, claims) is not None
    else:
        verbs.client.set(verbs.keys(middle)[0], "mine")
    before = _all(verbs)
    # When, then
    assert joined(verbs, claims) is None
    assert _all(verbs) == before


def _all(verbs: Verbs) -> dict[bytes, bytes]:
    """Return all keys of the server with their contents, except the test's clock."""
    keys = [key for key in verbs.client.scan_iter() if key != CLOCK.encode()]
    return {key: verbs.client.dump(key) for key in keys}


def test_only_a_claim_without_others_in_line_is_released_by_the_short_path(verbs: Verbs) -> None:
    # Given a lone claim, one with a waiter behind it, one that isn't there, and an expired one
    alone, crowded, nobody, dead = (claim(name) for name in "abcd")
    for one in (alone, crowded, dead._replace(spec=dead.spec._replace(ttl=1.0))):
        verbs.join(one)
    behind = claim("b")
    verbs.join(behind)
    verbs.at(START + 2)
    leaves = [Leave(one.spec.name, one.id, 0) for one in (alone, crowded, nobody, dead)]
    # When
    reply = verbs.ask(verbs.requests.leave_all(leaves), b"7f")
    # Then
    assert replies.released(reply, 4, LABEL) == [True, None, None, False]
    assert verbs.look("a") is None
    found = verbs.look("b")
    assert found is not None
    assert len(found.claims) == 2


def test_the_guard_of_each_name_is_asked(new_redis: NewRedis) -> None:
    with Guarded(new_redis(known=False)) as verbs:
        verbs.at(START)
        verbs.know()
        claims = [claim(f"n{number}") for number in range(3)]
        assert verbs.judged().seconds == 0
        # Given a record of another server for one name
        verbs.client.set(verbs.keys(claims[2].spec.name)[3], b"0" * 40)
        # When, then
        assert verbs.ask(verbs.requests.join_free(claims)) == [6]
        assert not verbs.names()
        verbs.client.set(verbs.keys(claims[2].spec.name)[3], verbs.run_id)
        assert joined(verbs, claims) is not None


# -- a client ----------------------------------------------------------------------------------


def test_all_names_take_one_round_trip_to_acquire_and_one_to_release(
    shared_redis: RedisServer, new_client: MakeClient, own_name: str
) -> None:
    names = names_of(own_name, 10)
    with Counted(shared_redis.host, shared_redis.port, RESP) as counter:
        client = new_client(f"redis://127.0.0.1:{counter.port}")
        with client.all(*names):
            pass
        before = counter.requests
        with client.all(*names) as hold:
            assert counter.requests - before == 1
            assert set(hold.fences) == set(names)
        assert counter.requests - before == 2


@pytest.mark.parametrize("face", ["threads", "asyncio"])
@pytest.mark.parametrize("old", [False, True], ids=["new", "6.2"])
def test_a_server_that_knows_no_script_and_has_no_memory(
    old: bool, face: str, new_redis: NewRedis
) -> None:
    server = new_redis(server=old_program()) if old else new_redis()

    def taken() -> None:
        if face == "threads":
            with Client(server.url) as client, client.all("a", "b", timeout=1):
                pass
        else:
            asyncio.run(on_a_loop())

    async def on_a_loop() -> None:
        async with AsyncClient(server.url) as client, client.all("a", "b", timeout=1):
            pass

    taken()
    server.ask("SCRIPT", "FLUSH")
    taken()
    # Without memory the server grants nothing and reports that; a holder can still release
    with Client(server.url) as client:
        hold = client.all("c", "d").acquire()
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            taken()
        assert hold.release()
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert not client.inspect()


@DROPS
def test_without_an_answer_it_is_not_called_busy_and_nothing_is_left(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(times(100, 3)):
        names = names_of(f"{own_name}:{number}")
        armed = proxy.arm(JOIN_FREE.sha, fault)
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="answer"):
            by_proxy.all(*names).acquire(timeout=0.2)
        assert time.monotonic() - begun < 0.2 + LATER_S + lag.since(begun)
        assert armed.hits == 1
        eventually(lambda: not any(map(line, names)))  # noqa: B023


@RESETS
def test_all_names_are_acquired_and_released_although_cut_off(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(times(100, 5)):
        names = names_of(f"{own_name}:{number}")
        # When the request is cut off, then all names are held, each by one claim
        armed = proxy.arm(JOIN_FREE.sha, fault)
        hold = by_proxy.all(*names).acquire(timeout=5)
        assert armed.hits == 1
        assert hold is not None
        for name in names:
            found = line(name)
            assert found is not None
            assert [one.fence for one in found.claims] == [hold.fences[name]]
        assert hold.release()
        assert not any(map(line, names))
        # When the release is cut off, then it is done once, and returns the truth
        again = names_of(f"{own_name}:{number} again")
        hold = by_proxy.all(*again).acquire(timeout=5)
        assert hold is not None
        armed = proxy.arm(LEAVE_ALL.sha, fault)
        assert hold.release()
        assert armed.hits == 1
        assert not any(map(line, again))


def test_a_late_copy_finds_a_tombstone_and_enters_nothing(
    by_proxy: Client,
    proxy: Proxy,
    own_name: str,
    locks: Client,
    line: Look,
    shared_redis: RedisServer,
) -> None:
    for number in range(times(100, 3)):
        names = names_of(f"{own_name}:{number}")
        # Given a request that is on its way while its client gives up
        late = proxy.arm(JOIN_FREE.sha, HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            by_proxy.all(*names).acquire(timeout=0.05)
        late.wait()
        tombs = [keys_of(PREFIX, name.encode())[2] for name in names]
        eventually(lambda: shared_redis.ask("EXISTS", *tombs) == 3)  # noqa: B023
        # And another client that held all names in the meantime, and released them
        eventually(partial(_passed, locks, names))
        # When the request arrives at last
        late.let_go()
        eventually(lambda: proxy.connections <= 2)
        time.sleep(0.02)
        # Then no name is held
        assert not any(map(line, names))


def _passed(locks: Client, names: list[str]) -> bool:
    hold = locks.all(*names).acquire(blocking=False)
    return hold is not None and hold.release()


def test_a_key_of_a_foreign_type_is_named_and_nothing_is_held(
    locks: Client, shared_redis: RedisServer, own_name: str, line: Look
) -> None:
    names = names_of(own_name)
    key = keys_of(PREFIX, names[1].encode())[0]
    shared_redis.ask("SET", key, "mine")
    try:
        with pytest.raises(ConfigError, match=r"is a string, not a hash"):
            locks.all(*names).acquire(timeout=5)
        assert shared_redis.ask("GET", key) == b"mine"
    finally:
        shared_redis.ask("DEL", key)
    assert not any(map(line, names))


def test_processes_that_want_some_of_the_same_names_never_share_one_and_all_get_on(
    redis_url: str, own_name: str, tmp_path: Path
) -> None:
    # Given processes that take random names in random order; every second one uses asyncio
    names = names_of(own_name, NAMES)
    seconds = times(20, 3)
    seed = time.time_ns() % 100_000
    print(f"seed={seed}")
    with contextlib.ExitStack() as stack:
        crew = [
            stack.enter_context(
                Subject(
                    "tests.stores.redis.workers:some_of",
                    *(redis_url, names, str(tmp_path), seconds, seed + number, number % 2 == 1),
                )
            )
            for number in range(PROCESSES)
        ]
        for one in crew:
            assert one.hear() == "ready"
        # When all begin
        for one in crew:
            one.say("go")
        # Then each held its names alone, with rising fences
        for one in crew:
            turns, wrong = one.hear(seconds + 30)
            assert wrong == []
            assert turns
    with Client(redis_url) as client:
        assert not client.inspect(own_name)
