"""A line with many dead waiters: verbs stay bounded, and living waiters are granted."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast.core.model import Held, Refused, Waiting
from holdfast.stores.sqlite.blocking.line import STEPS
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.servers.process import until
from tests.stores.sqlite.desk import Desk, claim
from tests.torture.scale import times

MOST = times(9_900, 2_400)
#: Waiter TTL in seconds, longer than the test: stopped waiters expire only when the test expires
#: them.
LONG_S = 120.0
#: Maximum seconds of a verb, plus the pauses of a busy machine.
BOUND_S = 0.5


class Crowd:
    """A process with thousands of waiters in one line, and some waiters of this test between
    them."""

    def __init__(self, here: Desk, path: Path, living: int) -> None:
        self.here, self.path = here, path
        self.holder = claim(ttl=600.0)
        self.fence = here.hold(self.holder)
        here.engine.patience = here.engine._lines.patience = LONG_S
        self.alive: list[tuple[Any, int]] = []
        crowd = ("tests.faults.masses:crowd", f"sqlite://{path}", "refund", LONG_S)
        self.subject = Subject(*crowd, first="tests.faults.masses")
        for _ in range(living):
            self.subject.say(MOST // living)
            self.subject.hear(60)
            wanted = claim()
            answer = here.join(wanted)
            assert isinstance(answer, Waiting)
            self.alive.append((wanted, answer.ticket))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.subject.__exit__()

    def dead(self) -> int:
        """Count the dead waiters that are still in the line, by reading the database directly."""
        with closing(sqlite3.connect(self.path)) as database:
            sql = "SELECT count(*) FROM claims WHERE ticket > 0 AND held = 0"
            return int(database.execute(sql).fetchone()[0]) - len(self.alive)

    def expire(self) -> None:
        """Let the process's waiters expire, without a sign from the process."""
        own = self.here.port.engine._files.own
        with closing(sqlite3.connect(self.path, timeout=10)) as database, database:
            late = "UPDATE claims SET expires = 1 WHERE"
            database.execute(f"{late} session <> ? AND held = 0 OR ticket = 0", (own,))


def bounded(crowd: Crowd, verb: Callable[[], Any]) -> Any:
    """Run the verb and return its reply; check its time and the number of dead waiters it
    removes."""
    before, begun = crowd.dead(), time.monotonic()
    answer = verb()
    took = time.monotonic() - begun
    assert took < BOUND_S + lag.since(begun), f"{took:.3g} s"
    assert crowd.dead() >= before - STEPS, f"{before - crowd.dead()} dropped at once"
    return answer


@pytest.mark.usual(1)
@pytest.mark.parametrize("living", [1, 12])
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_verbs_are_bounded_and_the_living_served_behind_thousands_of_dead(
    desk: Callable[..., Desk], path: Path, monkeypatch: pytest.MonkeyPatch, how: str, living: int
) -> None:
    here = desk("?wake=poll")
    monkeypatch.setattr(here.engine, "_flush", here.engine._send)  # no other client cleans up
    with Crowd(here, path, living) as crowd:
        if how == "killed":
            crowd.subject.kill()
        else:
            crowd.subject.stop()
            crowd.expire()
        assert crowd.dead() > MOST * 0.9
        # Each verb removes a part of the dead waiters, and reports that there are more
        late = claim()
        assert isinstance(bounded(crowd, lambda: here.join(late, wait=False)), Refused)
        assert isinstance(bounded(crowd, lambda: here.renew(crowd.holder, crowd.fence)), Held)
        bounded(crowd, here.lines)
        bounded(crowd, lambda: here.leave(crowd.holder, crowd.fence))
        # And the first living waiter is granted after all dead waiters before it are removed
        wanted, ticket = crowd.alive[0]
        asked = 0
        while not isinstance(answer := bounded(crowd, lambda: here.turn(wanted, ticket)), Held):
            assert isinstance(answer, Waiting)
            assert answer.retry_in == 0 or crowd.dead() == 0
            asked += 1
            assert asked <= MOST / STEPS + 1
        for one, at in crowd.alive[1:]:
            assert isinstance(bounded(crowd, partial(here.turn, one, at)), Waiting)
        assert here.leave(wanted, ticket)


def test_what_a_dead_process_left_is_cleared_away_in_parts(
    desk: Callable[..., Desk], path: Path
) -> None:
    here = desk("?wake=poll")
    with Crowd(here, path, 1) as crowd:
        before = crowd.dead()
        crowd.subject.kill()
        parts: list[int] = []
        slow = here.engine._slow

        def counted(*given: Any) -> Any:
            before = crowd.dead()
            answer = slow(*given)
            parts.append(before - crowd.dead())
            return answer

        here.engine._slow = counted
        wanted, ticket = crowd.alive[0]
        until(lambda: here.turn(wanted, ticket) and not crowd.dead(), "all are removed")
        assert sum(parts) == before
        assert max(parts) <= 2 * STEPS  # what it left, and what the line drops by itself
