"""The verbs of Redis and of the memory store give the same answers to random sequences.

The test sets the clock (see `verbs.Verbs`), so leases end without a wait.
"""

from __future__ import annotations

import random
import secrets
from typing import Any

import pytest

from holdfast.core.model import Refused, Waiting
from holdfast.stores.redis import replies
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.stores.redis.verbs import START, TAG, Verbs
from tests.stores.twins import Twins, listens
from tests.torture.scale import times

SEED = random.SystemRandom().randrange(1 << 32)
CHANNEL = b"pokes-of-the-test"


class RedisTwins(Twins):
    """The scripts and the memory store, which must send the same wake-ups, too."""

    start = START
    near = 0.001
    notices_ends = False

    def __init__(self, verbs: Verbs, seed: int) -> None:
        super().__init__(seed, f"run-{secrets.token_hex(8)}-")
        self.verbs = verbs
        self.pushes = verbs.client.pubsub()
        self.pushes.subscribe(CHANNEL)
        self.pushes.get_message(timeout=9)

    def at(self, now: float) -> float:
        # Tickets of different names are never equal, which keeps the comparison simple.
        now = round(now + 0.00001, 6)
        self.verbs.at(now)
        return now

    def ask(self, verb: str, *what: Any) -> Any:
        tag = self.dice.choice((b"", TAG))
        if verb == "join":
            what += (CHANNEL if listens(what[0]) else b"",)
        elif verb == "inspect":
            prefix, exact = what
            names = [prefix] if exact else self.verbs.names(prefix)
            return [line for name in names if (line := self.verbs.look(name, tag))]
        return getattr(self.verbs, verb)(*what, tag)

    def same_hint(self, theirs: Waiting | Refused, ours: Waiting | Refused, name: str) -> bool:
        # A waiter may ask earlier than necessary, but not later than the end of the next lease.
        held = self.lines.lines[name].held.values()
        next_end = min((row.expires for row in held), default=self.now + 1.0)
        return 0 <= ours.retry_in <= min(1.0, next_end - self.now + 0.001)

    def same_pokes(self, told: str) -> None:
        seen = []
        self.pushes.ping()
        while (message := self.pushes.get_message(timeout=9))["type"] != "pong":
            seen.append(replies.poked(message["data"]))
        wanted = [(i, self.tickets[t]) for a, i, t in self.pokes if a is not None]
        assert sorted(seen) == sorted(wanted), f"{told}\npoked: {seen}, not {wanted}"

    def walk(self) -> None:
        super().walk()
        self.pushes.close()


@pytest.mark.parametrize("turn", range(times(40, 4)))
def test_random_verbs_are_answered_as_the_memory_store_answers_them(
    turn: int, shared_redis: RedisServer
) -> None:
    with Verbs(shared_redis, clock=True) as verbs:
        RedisTwins(verbs, SEED + turn).walk()


def test_so_they_are_by_the_oldest_redis(new_redis: NewRedis) -> None:
    server = new_redis(server=old_program())
    for turn in range(times(10, 2)):
        with Verbs(server, clock=True, old=True) as verbs:
            RedisTwins(verbs, SEED + 100 + turn).walk()
