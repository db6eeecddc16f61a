"""A server's clock is set: no client holds for longer than its lease because of that."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing.faces import FACES
from holdfast.testing.faults.damage import ACTS, Case, Round
from holdfast.testing.promise import promised
from tests.core.flaky import behind
from tests.servers.clock import Clock
from tests.torture.scale import seed_of, times

TTL_S = 2.0
#: Rounds of a usual run for each step; each round begins with a correct clock.
USUAL = 2


class ClockGround:
    """See `holdfast.testing.faults.damage.Ground`: the damage is a step of the server's clock."""

    #: Seconds for which two clients can both take themselves for the holder: a third of the ttl
    #: until the next renewal, and the delay of a busy machine.
    overlap_s = 2.5
    #: Seconds after which all is normal: a lease that a step back made too long is cut to 10 s by
    #: the next request.
    calm_s = 20.0

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock

    def items(self, token: str) -> Sequence[str]:
        """The ways to set the clock: in one step, or slowly."""
        return ["step", "slew"]

    def damage(self, item: str, kind: str, chance: random.Random) -> bool:
        """Set the clock."""
        if item == "step":
            self.clock.step(float(kind))
        else:
            self.clock.slew(float(kind), over=1.0)
        return True


def clients_continue(ground: ClockGround, step: float) -> None:
    """Set the clock between any two acts; no client is blocked, and never do two hold."""
    seed = seed_of("steps of the clock")
    chance = random.Random(seed)
    for number in range(times(20, USUAL)):
        ground.clock.set(0.0)
        case = Case(chance.randrange(len(ACTS)), chance.randrange(2), str(step), seed + number)
        verdict = Round(ground, case, FACES["aio" if number % 4 == 3 else "sync"]).play()
        assert not verdict.wrong, verdict


def a_dead_holder_is_gone_after_its_lease(url: str, clock: Clock, seconds: float) -> None:
    """Check that the lease of a holder ends although it was renewed after the step back."""
    with Client(url) as client, Client(url) as other:
        for permits in (1, 2):
            name = f"of {permits}"
            clock.set(0.0)
            # Given holds that are renewed by hand only, as many as there are permits
            wanted = client.semaphore(name, permits, ttl=TTL_S, auto_renew=False)
            holds = [wanted.acquire() for _ in range(permits)]
            # When the clock is set back, the last hold is renewed once more, and its process dies
            clock.set(-seconds)
            holds[-1].extend()
            begun = time.monotonic()
            # Then the next claim gets the permits soon
            with other.semaphore(name, permits, timeout=40):
                assert time.monotonic() - begun < 20


def a_join_whose_reply_was_lost_counts_from_its_repetition(
    url: str, clock: Clock, seconds: float
) -> None:
    """Check that a repeated join grants no more than the ttl.

    The first join came before the step, so the server's record of the lease ends too late.
    """
    with Client(url) as client:
        store = behind(client)
        for permits in (1, 2):
            clock.set(0.0)
            wanted = client.semaphore(f"of {permits}", permits, ttl=TTL_S, auto_renew=False)
            others = [wanted.acquire() for _ in range(permits - 1)]
            # When the clock is set back between the join and its repetition
            store.cut_once(lambda: clock.set(-seconds))
            sent = boottime()
            with wanted.acquire(timeout=20) as hold:
                # Then the client uses the hold for no longer than the requested ttl
                with promised("no lease is longer than the ttl"):
                    assert hold._lease.deadline <= boottime() + TTL_S
                assert hold._lease.deadline > sent
            for one in others:
                one.release()


def jobs_come_as_if_nothing_had_happened(url: str, clock: Clock, seconds: float) -> None:
    """Check that jobs from before the step back are delivered, and no job is missing."""
    with Client(url) as client:
        clock.set(0.0)
        queue = client.queue("stepped", ttl=TTL_S)
        for number in range(4):
            queue.put(number)
        queue.put("grouped", group="g")
        clock.set(-seconds)
        queue.put("later")
        found: set[object] = set()
        end = time.monotonic() + 60
        while len(found) < 6 and time.monotonic() < end:
            job = queue.take(timeout=5)
            if job is not None:
                found.add(job.payload)
                job.ack()
        assert found == {0, 1, 2, 3, "grouped", "later"}
