"""Leases, delays and pauses end correctly although the server's clock is stepped in between.

A player runs a few verbs one after the other. There is one player for each place between two of
them, so that one step of the clock meets all these places. An event that was requested after some
seconds comes within a bounded time, whatever the clock does. If the clock is set back, the event
does not come too early.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, ClassVar

from holdfast import Client, HoldfastError, LockLost
from holdfast.core.guard.model import Abandon, Duty, Entry, Finish, Prolong, Wish
from holdfast.core.guard.ports import guards_of
from holdfast.core.model import Held
from holdfast.core.queue.model import Delivered, Pace, Patience, Take, Verdict
from holdfast.runtime.blocking import run_sync
from holdfast.url import find
from tests.servers.clock import HOUR_S, STEPS_S, Clock
from tests.stores.sql.queueing import Verbs, job, new_id
from tests.torture.scale import FULL

#: Seconds of the requested leases, delays, pauses and lives of values.
ASKED_S = 1.5
#: Maximum seconds until an event comes after the clock was set: a store can take 10 s to be sure.
BOUND_S = 25.0
#: Seconds that a slow step takes.
SLOW_S = 1.0


class Player:
    """Runs its verbs, and collects the errors in ``wrong``."""

    verbs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, url: str, name: str, back: bool) -> None:
        self.url = url
        self.name = name
        #: True if the clock is set back: then nothing may come too early.
        self.back = back
        self.wrong: list[str] = []
        #: For each event, the moment before which it must not come.
        self.soonest: dict[str, float] = {}

    def play(self, verbs: Sequence[str]) -> None:
        """Run these verbs."""
        for verb in verbs:
            getattr(self, verb)()

    def asked(self, what: str) -> None:
        """Note that an event was requested now; it must not come within ``ASKED_S`` seconds."""
        self.soonest[what] = time.monotonic() + ASKED_S

    def came(self, what: str) -> None:
        """Check that this event, which has just come, did not come too early."""
        early = self.soonest.get(what, 0.0) - time.monotonic()
        if self.back and early > 0.02:
            self.wrong.append(f"{self.name}: {what} came {early:.2f} s too soon")

    def within(self, what: str, there: Callable[[], bool]) -> None:
        """Wait until this event comes, and note an error if it is too late or too early."""
        end = time.monotonic() + BOUND_S
        while not there():
            if time.monotonic() > end:
                left = self.left()
                self.wrong.append(f"{self.name}: {what} didn't come within {BOUND_S:g} s{left}")
                return
            time.sleep(0.02)
        self.came(what)

    def left(self) -> str:
        """A description of the events that have not come yet."""
        return ""

    def finish(self) -> None:
        """Wait until all requested events have come."""
        raise NotImplementedError

    def close(self) -> None:
        """Close its connections."""
        raise NotImplementedError


class Locks(Player):
    """A holder that stops renewing, and a waiter behind it."""

    verbs = ("hold", "renew", "wait", "renew")

    def __init__(self, url: str, name: str, back: bool) -> None:
        super().__init__(url, name, back)
        self._client, self._other = Client(url), Client(url)
        self._hold: Any = None
        self._served = threading.Event()
        self._waiter = threading.Thread(target=self._wait)

    def hold(self) -> None:
        before = time.monotonic()
        self._hold = self._client.lock(self.name, ttl=ASKED_S, auto_renew=False).acquire()
        self.soonest["the lock"] = before + ASKED_S

    def renew(self) -> None:
        before = time.monotonic()
        with contextlib.suppress(LockLost):
            self._hold.extend()
            self.soonest["the lock"] = before + ASKED_S

    def wait(self) -> None:
        self._waiter.start()
        end = time.monotonic() + 2
        while time.monotonic() < end and not self._served.is_set():
            lines = self._client.inspect(self.name, exact=True)
            if lines and lines[0].waiters:
                break

    def _wait(self) -> None:
        try:
            hold: Any = self._other.lock(self.name).acquire(timeout=2 * BOUND_S)
        except HoldfastError as wrong:
            self.wrong.append(f"{self.name}: the waiter: {wrong}")
            return
        self._served.set()
        if self.back and self._hold.lost is None and self._hold.remaining() > 0.02:
            self.wrong.append(f"{self.name}: two hold")
        with contextlib.suppress(LockLost):
            hold.release()

    def finish(self) -> None:
        self.within("the lock", self._served.is_set)
        again: Any = self._client.lock(self.name).acquire(timeout=BOUND_S)
        with contextlib.suppress(LockLost):
            again.release()

    def close(self) -> None:
        if self._waiter.ident is not None:
            self._waiter.join()
        self._client.close()
        self._other.close()


class Jobs(Player):
    """Jobs that are due later, and jobs whose worker stops renewing."""

    verbs = ("put", "put_later", "take", "renew", "take_another", "retry")
    pace = Pace()

    def __init__(self, url: str, name: str, back: bool) -> None:
        super().__init__(url, name, back)
        self._queue = Verbs(url, name)
        self._left: set[bytes] = set()
        self._dead = self._wish(ASKED_S)
        self._got: list[Delivered] = []
        self._again = self._wish()
        self._found: list[Delivered] = []

    def _wish(self, ttl: float = 2 * BOUND_S) -> Take:
        # A clock that runs ahead by years in seconds ends each lease at once.
        return self._queue.wish(ttl=ttl, pace=self.pace, patience=Patience(attempts=100_000))

    def put(self) -> None:
        self._queue.put(job("first", "g"), job("second", "g"), job("plain"))
        self._left |= {b"first", b"second", b"plain"}

    def put_later(self) -> None:
        for name, group in (("later", "h"), ("later plain", "")):
            self.asked(name)
            self._queue.put(job(name, group, delay=ASKED_S))
            self._left.add(name.encode())

    def take(self) -> None:
        before = time.monotonic()
        self._got = self._queue.take(self._dead)
        self._lent(before)

    def renew(self) -> None:
        before = time.monotonic()
        if self._got and isinstance(self._queue.extend(self._dead, self._got, ASKED_S)[0], Held):
            self._lent(before)

    def _lent(self, before: float) -> None:
        for one in self._got:
            self.soonest[one.payload.decode()] = before + ASKED_S

    def take_another(self) -> None:
        self._found = self._queue.take(self._again)

    def retry(self) -> None:
        for one in self._found:
            before = time.monotonic()
            verdict = {"delay": ASKED_S, "reason": "again"}
            if self._queue.settle(self._again, [one], Verdict.RETRY, **verdict) == [True]:
                self.soonest[one.payload.decode()] = before + ASKED_S

    def finish(self) -> None:
        self.within("the last job", self._drained)

    def left(self) -> str:
        """The jobs that did not come, and their state in the queue."""
        with Client(self.url) as client:
            return f": {sorted(self._left)} of {client.queue(self.name).jobs()}"

    def _drained(self) -> bool:
        wish = self._wish()
        for one in self._queue.take(wish):
            self.came(one.payload.decode())
            if self._queue.settle(wish, [one]) != [True]:
                continue  # a clock that goes forward ends a lease
            if one.payload not in self._left:
                self.wrong.append(f"{self.name}: {one.payload!r} came twice")
            self._left.discard(one.payload)
        return not self._left

    def close(self) -> None:
        self._queue.close()


class PacedJobs(Jobs):
    """Jobs with a rate, and with a minimum interval between two jobs of a group."""

    pace = Pace(min_interval=0.2, rate=5.0)


class Refreshes(Player):
    """A value that becomes stale, a caller that stops renewing, and a remembered failure."""

    verbs = ("begin", "finish_one", "begin_dead", "renew", "begin_failing", "fail")

    def __init__(self, url: str, name: str, back: bool) -> None:
        super().__init__(url, name, back)
        module, parsed = find(url)
        self._store = module.open_blocking(parsed)
        self._guards = guards_of(self._store)
        self._wishes = {what: self._wish(what) for what in ("value", "dead", "failed")}
        self._duties: dict[str, Duty] = {}

    def _wish(self, what: str) -> Wish:
        return Wish(Entry(self.name, what), new_id(), "host:1:test", ASKED_S)

    def _begin(self, what: str) -> None:
        before = time.monotonic()
        begun = run_sync(self._guards.begin(self._wishes[what], 10.0))
        if isinstance(begun, Duty):
            self._duties[what] = begun
            self.soonest[what] = before + ASKED_S

    def begin(self) -> None:
        self._begin("value")

    def finish_one(self) -> None:
        wish, fence = self._wishes["value"], self._duties["value"].fence
        done = Finish(wish.entry, wish.id, fence, b"value", ASKED_S, 0.0, 0.0, 0.0)
        run_sync(self._guards.finish(done, 10.0))
        # A store that does not know the age of the value can let a caller compute it earlier.
        self.soonest.pop("value", None)

    def begin_dead(self) -> None:
        self._begin("dead")

    def renew(self) -> None:
        wish, before = self._wishes["dead"], time.monotonic()
        prolong = Prolong(wish.entry, wish.id, self._duties["dead"].fence, ASKED_S)
        (answer,) = run_sync(self._guards.prolong([prolong], 10.0))
        if isinstance(answer, Held):
            self.soonest["dead"] = before + ASKED_S

    def begin_failing(self) -> None:
        self._begin("failed")

    def fail(self) -> None:
        wish, before = self._wishes["failed"], time.monotonic()
        failed = Abandon(wish.entry, wish.id, ASKED_S, ASKED_S, 2 * ASKED_S, "no")
        if run_sync(self._guards.abandon(failed, 10.0)):
            self.soonest["failed"] = before + ASKED_S

    def finish(self) -> None:
        for what in self._wishes:
            self.within(what, lambda: self._free(what))  # noqa: B023

    def _free(self, what: str) -> bool:
        """Return whether another caller gets the refresh lease."""
        return isinstance(run_sync(self._guards.begin(self._wish(what), 10.0)), Duty)

    def close(self) -> None:
        run_sync(self._store.close())


KINDS: tuple[type[Player], ...] = (Locks, Jobs, PacedJobs, Refreshes)


def what_was_begun_ends_as_it_should(url: str, clock: Clock, step: float, slowly: bool) -> None:
    """Set the clock between any two verbs."""
    with Client(url) as first:  # makes what all others would want to make at once
        first.lock("warm", timeout=60).acquire().release()
        first.queue("warm").put(1)
        first.guard("warm", ttl=60, timeout=60).get(lambda: 1)
    places = [(kind, at) for kind in KINDS for at in range(len(kind.verbs) + 1)]
    with ExitStack() as ends, ThreadPoolExecutor(len(places)) as pool:
        players = [kind(url, f"{kind.__name__}-{at}", step < 0) for kind, at in places]
        for one in players:
            ends.callback(one.close)
        begun = [
            pool.submit(one.play, one.verbs[:at])
            for one, (_, at) in zip(players, places, strict=True)
        ]
        for result in begun:
            result.result(120)
        if not slowly:
            clock.step(step)
        rest = [pool.submit(_rest, one, at) for one, (_, at) in zip(players, places, strict=True)]
        if slowly:
            clock.slew(step, over=SLOW_S)
        failed = [repr(result.exception()) for result in rest if result.exception()]
    wrong = failed + [said for one in players for said in one.wrong]
    assert not wrong, "\n".join(wrong)


def _rest(player: Player, at: int) -> None:
    player.play(player.verbs[at:])
    player.finish()


#: Steps in one jump, and slow ones. A usual run has only the steps of an hour. Of the slow ones it
#: has only the step back, which is the hardest.
USUAL = [(HOUR_S, False), (-HOUR_S, False), (-HOUR_S, True)]
STEPPED = [(step, slowly) for step in STEPS_S for slowly in (False, True)] if FULL else USUAL
