"""The row of a name: its lock makes a verb atomic."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from holdfast.core.model import Held, Refused
from tests.stores.crowds import at_once
from tests.stores.mysql.conftest import Bench, Direct
from tests.stores.sql.waiting import *  # noqa: F403
from tests.torture.scale import times

CREW = 4
ROUNDS = times(500, 60)


def test_of_simultaneous_tries_exactly_one_enters(direct: Direct, own_name: str) -> None:
    for turn in range(ROUNDS):
        # Given a name that is new half of the time
        name = f"{own_name}:{turn // 2}"
        # When several claims try it at the same moment
        numbers = [CREW * turn + at + 1 for at in range(CREW)]
        claims = [direct.claim(name, number, ttl=0.01) for number in numbers]
        answers = at_once(CREW, lambda at: direct.join(claims[at]._replace()))  # noqa: B023
        # Then no two hold at the same time; leases are short, so a second claim can follow the
        # first
        fences = [one.fence for one in answers if isinstance(one, Held)]
        assert fences, answers
        assert all(isinstance(one, Held | Refused) for one in answers)
        assert len(set(fences)) == len(fences)
        gaps = sorted(fences)
        assert all(late - soon >= 10_000 for soon, late in itertools.pairwise(gaps)), gaps
        time.sleep(0.012)


def test_time_and_tickets_are_those_after_the_wait_for_the_lock(
    direct: Direct, bench: Bench, own_name: str
) -> None:
    # Given a name whose row another session has locked, and which gets a greater ticket there
    direct.join(direct.claim(own_name, 1, ttl=0.01))
    time.sleep(0.02)
    here = "WHERE name = %s"
    with bench.server.connect() as other, other.cursor() as cursor:
        cursor.execute(f"SELECT last FROM holdfast_lines {here} FOR UPDATE", (own_name,))
        # When a claim joins, and has to wait for that lock
        found: list[Any] = []
        claim = direct.claim(own_name, 2)
        thread = threading.Thread(target=lambda: found.append(direct.join(claim)))
        thread.start()
        time.sleep(0.5)
        ahead = 3600 * 1_000_000
        cursor.execute(f"UPDATE holdfast_lines SET last = last + {ahead} {here}", (own_name,))
        cursor.execute("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        (freed,) = cursor.fetchone()
        cursor.execute(f"SELECT last FROM holdfast_lines {here}", (own_name,))
        (last,) = cursor.fetchone()
        other.commit()
        thread.join()
    # Then its ticket is greater, and its lease begins when the lock was free
    (held,) = found
    assert held.fence > last
    ((since, expires),) = bench.ask(f"SELECT since, expires FROM {{lines}} {here}", own_name)
    assert since >= freed
    assert expires == since + 30_000_000
