"""A line on a server with thousands of waiters, of which most die: the time that verbs then take.

A store's module has the fixture ``dying`` and imports the test.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.model import Claim, Held, Keep, Kind, Leave, Refused, Spec, Waiting
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


class Line:
    """The claims of a line as rows, accessed without the store's code.

    ``ask`` runs a statement. ``head`` is the table of lines and its column for the time at which
    the first claim expires. ``steps`` is the maximum number of dead claims that one verb removes.
    """

    def __init__(
        self, url: str, ask: Callable[..., Any], claims: str, head: tuple[str, str], steps: int
    ) -> None:
        self.url, self.steps = url, steps
        self._ask, self._claims, self._head = ask, claims, head

    def kill(self, name: object, living: int) -> None:
        """Make all waiters with tickets below ``living`` expire; extend the others."""
        those = "WHERE name = %s AND NOT held AND ticket"
        self._ask(f"UPDATE {self._claims} SET expires = 1 {those} < %s", name, living)
        later = f"UPDATE {self._claims} SET expires = expires + {LATER_US}"
        self._ask(f"{later} {those} >= %s", name, living)
        self._ask(f"UPDATE {self._head[0]} SET {self._head[1]} = 1 WHERE name = %s", name)

    def waiters(self, name: object) -> int:
        """The number of waiters."""
        table = f"{self._claims} WHERE name = %s AND NOT held"
        ((count,),) = self._ask(f"SELECT count(*) FROM {table}", name)
        return int(count)


@pytest.mark.usual(0)
def test_the_living_are_served_behind_thousands_of_dead(
    dying: Line, locks: Client, own_name: str
) -> None:
    name = own_name.encode()
    verbs_are_bounded(
        locks,
        dying.url,
        own_name,
        MOST,
        dying.steps,
        lambda living: dying.kill(name, living),
        lambda: dying.waiters(name),
    )


def _claim(name: str) -> Claim:
    return Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, 60.0, "somebody", ""))


def verbs_are_bounded(
    client: Client,
    url: str,
    name: str,
    many: int,
    steps: int,
    kill: Callable[[int], None],
    waiters: Callable[[], int],
) -> None:
    """Check that no verb removes more than ``steps`` dead waiters, and that a living one is served.

    There are ``many`` waiters. ``kill`` lets the waiters with lower tickets than the living one
    expire. ``waiters`` returns the number of waiters, without the store's code.
    """
    store = client._ctx.store

    def join(wait: bool = True) -> Any:
        wanted = _claim(name)
        return wanted, run_sync(store.join(wanted, wait, WITHIN_S))

    def bounded(verb: Callable[[], Any]) -> Any:
        before, begun = waiters(), time.monotonic()
        answer = verb()
        took = time.monotonic() - begun
        assert took < BOUND_S + lag.since(begun), f"{took:.3g} s"
        assert waiters() >= before - steps - 1, f"{before - waiters()} were dropped at once"
        return answer

    holder, held = join()
    with Subject(
        "tests.faults.masses:crowd", url, name, LONG_S, first="tests.faults.masses"
    ) as crowd:
        crowd.say(many)
        crowd.hear(60)
        crowd.kill()
    living, standing = join()
    kill(standing.ticket)
    assert waiters() == many + 1
    # Each verb removes a part of the dead waiters
    assert isinstance(bounded(lambda: join(False))[1], Refused)
    bounded(lambda: run_sync(store.keep([Keep(holder, held.fence, 60.0)], WITHIN_S)))
    bounded(lambda: run_sync(store.inspect(name, WITHIN_S, True)))
    bounded(lambda: run_sync(store.leave(Leave(name, holder.id, held.fence), WITHIN_S)))
    # And the living waiter must ask again at once while there are more dead ones
    asked, keep = 0, Keep(living, standing.ticket, 60.0)
    while True:
        (answer,) = bounded(lambda: run_sync(store.keep([keep], WITHIN_S)))
        if isinstance(answer, Held):
            break
        assert isinstance(answer, Waiting)
        assert answer.retry_in == 0, f"{waiters()} wait, and it is told {answer}"
        asked += 1
        assert asked <= 2 * many / steps
    assert waiters() == 0
    run_sync(store.leave(Leave(name, living.id, standing.ticket), WITHIN_S))
