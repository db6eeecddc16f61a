"""A line on a server with thousands of waiters, of which most die: the time that verbs then take.

A store's module has the fixture ``dying`` and imports the test.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast import Client
from holdfast.core.model import Claim, Held, Kind, Leave, Refused, Renewal, Spec, Waiting
from holdfast.runtime.blocking import run_sync
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.torture.scale import times

lag.watch()

MOST = times(9_900, 4_500)
#: Microseconds added to the deadline of a living waiter, which would otherwise expire after three
#: seconds.
LATER_US = 50_000_000

#: Maximum seconds for a verb, on a machine that is busy with other work.
BOUND_S = 0.5
WITHIN_S = 10.0
#: Seconds that are longer than any test.
LONG_S = 120.0


class Line(NamedTuple):
    """The claims of a line as rows, accessed without the store's code.

    ``ask`` runs a statement. ``head`` is the table of lines and its column for the time at which
    the first claim expires. ``steps`` is the maximum number of dead claims that one verb removes.
    """

    url: str
    ask: Callable[..., Any]
    claims: str
    head: tuple[str, str]
    steps: int

    def kill(self, name: bytes, living: int) -> None:
        """Make all waiters with tickets below ``living`` expire; extend the others."""
        those = "WHERE name = %s AND NOT held AND ticket"
        self.ask(f"UPDATE {self.claims} SET expires = 1 {those} < %s", name, living)
        later = f"UPDATE {self.claims} SET expires = expires + {LATER_US}"
        self.ask(f"{later} {those} >= %s", name, living)
        self.ask(f"UPDATE {self.head[0]} SET {self.head[1]} = 1 WHERE name = %s", name)


@pytest.mark.usual(0)
def test_the_living_are_served_behind_thousands_of_dead(
    dying: Line, locks: Client, own_name: str
) -> None:
    store, name, many = locks._ctx.store, own_name, MOST
    count = f"SELECT count(*) FROM {dying.claims} WHERE name = %s AND NOT held"

    def waiters() -> int:
        return int(dying.ask(count, name.encode())[0][0])

    def join(wait: bool = True) -> Any:
        spec = Spec(name, Kind.LOCK, 1, 1, 60.0, "somebody", "")
        wanted = Claim(secrets.token_hex(16), spec)
        return wanted, run_sync(store.join(wanted, wait, WITHIN_S))

    def bounded(verb: Callable[[], Any]) -> Any:
        before, begun = waiters(), time.monotonic()
        answer = verb()
        took = time.monotonic() - begun
        assert took < BOUND_S + lag.since(begun), f"{took:.3g} s"
        assert waiters() >= before - dying.steps - 1, f"{before - waiters()} were dropped at once"
        return answer

    holder, held = join()
    act, first = "tests.faults.masses:crowd", "tests.faults.masses"
    with Subject(act, dying.url, name, LONG_S, first=first) as crowd:
        crowd.say(many)
        crowd.hear(60)
        crowd.kill()
    living, standing = join()
    dying.kill(name.encode(), standing.ticket)
    assert waiters() == many + 1
    # Each verb removes a part of the dead waiters
    assert isinstance(bounded(lambda: join(False))[1], Refused)
    bounded(lambda: run_sync(store.renew([Renewal(holder, held.fence, 60.0)], WITHIN_S)))
    bounded(lambda: run_sync(store.inspect(name, WITHIN_S, True)))
    bounded(lambda: run_sync(store.leave(Leave(name, holder.id, held.fence), WITHIN_S)))
    # And the living waiter must ask again at once while there are more dead ones
    asked = 0
    while True:
        answer = bounded(lambda: run_sync(store.turn(living, standing.ticket, WITHIN_S)))
        if isinstance(answer, Held):
            break
        assert isinstance(answer, Waiting)
        assert answer.retry_in == 0, f"{waiters()} wait, and the reply is {answer}"
        asked += 1
        assert asked <= 2 * many / dying.steps
    assert waiters() == 0
    run_sync(store.leave(Leave(name, living.id, standing.ticket), WITHIN_S))
