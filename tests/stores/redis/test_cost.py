"""The cost of a verb on the server, counted in commands, which no other program disturbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.core.model import Claim, Full, Held, Renewal
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.verbs import START, Verbs, claim, permit

WAITERS = 10_000
#: The commands of the counting, and the call of the script itself. They are not counted.
OURS = {"config|resetstat", "info", "evalsha"}


@pytest.fixture
def server(new_redis: NewRedis) -> RedisServer:
    return new_redis()


@pytest.fixture
def verbs(server: RedisServer) -> Iterator[Verbs]:
    with Verbs(server, patience=9.0) as verbs:
        yield verbs


@pytest.fixture
def timeless(server: RedisServer) -> Iterator[Verbs]:
    """Scripts with the test's clock: no waiter expires, however long the test takes."""
    with Verbs(server, clock=True) as verbs:
        verbs.at(START)
        verbs.look()
        yield verbs


def counted(server: RedisServer, work: Callable[[], object]) -> dict[str, int]:
    server.ask("CONFIG", "RESETSTAT")
    work()
    return {name: calls for name, calls in sorted(server.calls().items()) if name not in OURS}


def test_the_uncontended_verbs_take_two_or_three_commands(
    server: RedisServer, verbs: Verbs
) -> None:
    one = claim()
    verbs.join(one)
    verbs.gone(one)
    assert counted(server, lambda: verbs.join(one)) == {"time": 1, "hget": 1, "hset": 1}
    renewal = Renewal(one, 0, 30.0)
    assert counted(server, lambda: verbs.renew([renewal])) == {"time": 1, "hget": 1, "hset": 1}
    # A batch asks for the time once
    several = [claim(f"n{number}") for number in range(50)]
    for another in several:
        verbs.join(another)
    batch = counted(server, lambda: verbs.renew([Renewal(another, 0, 30.0) for another in several]))
    assert batch == {"time": 1, "hget": 50, "hset": 50}
    assert counted(server, lambda: verbs.join(claim(), wait=False)) == {"time": 1, "hget": 1}
    # And with recovery a join also reads the record
    verbs.run_id = b"r" * 40
    verbs.client.set(verbs.keys()[3], verbs.run_id)
    with_recovery = {"time": 1, "hget": 1, "get": 1}
    assert counted(server, lambda: verbs.join(claim(), wait=False)) == with_recovery
    assert counted(server, lambda: verbs.gone(one)) == {"time": 1, "hget": 1, "hset": 1}


def test_a_hand_off_takes_few_commands(server: RedisServer, verbs: Verbs) -> None:
    # Given three claims in line, and a listener
    with verbs.client.pubsub() as ear:
        ear.subscribe("ear")
        ear.get_message(timeout=9)
        crew = [claim() for _ in range(3)]
        for one in crew:
            verbs.join(one, address=b"ear")
        # When each releases, the next is granted, and the first joins again
        served = {"time": 1, "hget": 3, "hdel": 2, "hset": 1, "publish": 1}
        assert counted(server, lambda: verbs.gone(crew[0])) == served
        join = counted(server, lambda: verbs.join(crew[0], address=b"ear"))
        assert join == {"time": 1, "hget": 4, "hset": 2}
        assert counted(server, lambda: verbs.gone(crew[1])) == served
        assert counted(server, lambda: verbs.gone(crew[2])) == served
        # Then the last release finds no waiter to look up
        last = counted(server, lambda: verbs.gone(crew[0]))
        assert last == {"time": 1, "hget": 2, "hdel": 1, "hset": 1}


def crowd(verbs: Verbs, size: int) -> list[Claim]:
    """Let `size` claims wait at the end of the line."""
    newcomers = [claim() for _ in range(size)]
    replied = verbs.all([verbs.requests.join(one, True) for one in newcomers])
    assert all(reply[0] == 2 for reply in replied)
    return newcomers


def test_no_verb_costs_more_behind_ten_thousand_waiters(
    server: RedisServer, timeless: Verbs
) -> None:
    verbs = timeless

    def costs(here: int) -> dict[str, dict[str, int]]:
        """Return the cost of each verb in a line with `here` waiters."""
        first, *others = line
        latest = claim()
        found = {
            "join": counted(server, lambda: verbs.join(latest)),
            "join again": counted(server, lambda: verbs.join(latest)),
            "try": counted(server, lambda: verbs.join(claim(), wait=False)),
            "turn": counted(server, lambda: verbs.turn(latest)),
            "renew": counted(server, lambda: verbs.renew([Renewal(first, 0, 30.0)])),
            "leave waiting": counted(server, lambda: verbs.gone(latest)),
            "leave held": counted(server, lambda: verbs.gone(first)),
        }
        assert isinstance(verbs.turn(others[0]), Held)
        line.pop(0)
        assert verbs.client.hlen(verbs.keys()[1]) == 2 * here
        return found

    # Given a line of five, and what each verb costs there
    line = [claim() for _ in range(5)]
    for one in line:
        verbs.join(one)
    few = costs(3)
    # When ten thousand claims wait in it
    crew = crowd(verbs, WAITERS - 3)
    latest = claim()
    assert verbs.join(latest) == Full(WAITERS)
    verbs.gone(crew[17])
    verbs.gone(crew[18])
    assert costs(WAITERS - 3) == few
    # (Ten, and a check of the few holders, which happens in one second of five.)
    assert max(sum(one.values()) for one in few.values()) <= 11, few


def test_no_verb_costs_more_with_a_thousand_holders(server: RedisServer, verbs: Verbs) -> None:
    def heavy() -> dict[str, int]:
        """Refuse a claim. The reply names one of two random fields; one can be the line's state."""
        return counted(server, lambda: verbs.join(permit(2000, 2000), wait=False))

    def costs() -> dict[str, dict[str, int]]:
        one, two = permit(2000), permit(2000)
        return {
            "join": counted(server, lambda: verbs.join(one)),
            "join again": counted(server, lambda: verbs.join(one)),
            "renew": counted(server, lambda: verbs.renew([Renewal(one, 0, 30.0)])),
            "renew alone": counted(server, lambda: verbs.renew([Renewal(one, 0, 30.0, weight=1)])),
            "heavy": max((heavy() for _ in range(10)), key=lambda one: one["hget"]),
            "leave": counted(server, lambda: verbs.gone(one)),
            "leave nothing": counted(server, lambda: verbs.gone(two)),
        }

    for _ in range(40):
        assert isinstance(verbs.join(permit(2000)), Held)
    few = costs()
    for _ in range(1000):
        assert isinstance(verbs.join(permit(2000)), Held)
    assert costs() == few
    assert max(sum(one.values()) for one in few.values()) <= 8, few
