"""Several names in one call on Redis: all or none, in one round trip, nothing left on failure."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from holdfast import StoreUnavailable
from holdfast.core.model import Claim, Leave
from holdfast.stores.redis import replies
from holdfast.testing.faces import Face
from holdfast.testing.promise import promised
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import old_program, program
from tests.stores.redis.recovery import RecoveryVerbs
from tests.stores.redis.verbs import CLOCK, LABEL, START, Verbs, claim
from tests.torture.scale import seed_of, times

#: The number of clients, the names that they share, and the turns of each.
CREW, NAMES, TURNS = 6, 7, times(1000, 60)
#: The maximum seconds of a test.
LONG_S = 600.0


def names_of(start: str, many: int = 3) -> list[str]:
    return [f"{start}:{number}" for number in range(many)]


def joined(verbs: Verbs, claims: list[Claim], tag: bytes = b"") -> list[int] | None:
    reply = verbs.ask(verbs.requests.join_free(claims), tag)
    held = replies.let_in(reply, claims, LABEL)
    return None if held is None else [one.fence for one in held]


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
    reply = verbs.ask(verbs.requests.leave_all(leaves), b"7f")
    assert replies.released(reply, 4, LABEL) == [True, None, None, False]
    assert verbs.look("a") is None
    found = verbs.look("b")
    assert found is not None
    assert len(found.claims) == 2


def test_recovery_is_asked_for_each_name(new_redis: NewRedis) -> None:
    with RecoveryVerbs(new_redis(known=False)) as verbs:
        verbs.at(START)
        verbs.know()
        claims = [claim(f"n{number}") for number in range(3)]
        assert verbs.judged().seconds == 0
        # Given a record of another server for one name
        verbs.client.set(verbs.keys(claims[2].spec.name)[3], b"0" * 40)
        assert verbs.ask(verbs.requests.join_free(claims)) == [6]
        assert not verbs.names()
        verbs.client.set(verbs.keys(claims[2].spec.name)[3], verbs.run_id)
        assert joined(verbs, claims) is not None


@pytest.mark.parametrize("which", [program, old_program], ids=["new", "6.2"])
def test_a_server_that_knows_no_script_and_has_no_memory(
    which: Callable[[], str], face: Face, new_redis: NewRedis
) -> None:
    server = new_redis(server=which())

    async def main() -> None:
        async with face.client(server.url) as client:
            for _ in range(2):
                async with client.all("a", "b", timeout=5):
                    pass
                server.ask("SCRIPT", "FLUSH")
            # Without memory the server grants nothing and reports that; a holder can still release
            hold = await client.all("c", "d").acquire()
            server.ask("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await client.all("a", "b").acquire(timeout=1)
            assert await hold.release()
            server.ask("CONFIG", "SET", "maxmemory", "0")
            assert not await client.inspect()

    face.run(main, LONG_S)


def test_clients_that_want_some_of_the_same_names_never_share_one_and_all_get_on(
    face: Face, redis_url: str, own_name: str
) -> None:
    chance = random.Random(seed_of("some of the same names"))
    latest, inside = dict.fromkeys(names_of(own_name, NAMES), 0), set[str]()

    async def take_turns() -> None:
        async with face.client(redis_url) as client:
            for _ in range(TURNS):
                wanted = chance.sample([*latest], chance.randint(2, 4))
                async with client.all(*wanted, timeout=60) as hold:
                    with promised("one holder at a time, and fences rise"):
                        assert inside.isdisjoint(wanted)
                        assert all(hold.fences[name] > latest[name] for name in wanted)
                    inside.update(wanted)
                    latest.update(hold.fences)
                    await face.sleep(chance.choice([0.0, 0.002]))
                    inside.difference_update(wanted)

    async def main() -> None:
        for actor in [face.start(take_turns) for _ in range(CREW)]:
            await actor.result(LONG_S)
        assert inside == set()

    face.run(main, LONG_S)
