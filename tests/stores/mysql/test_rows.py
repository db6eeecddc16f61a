"""The row of a name: its lock makes a verb atomic, and names are compared by their bytes."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.model import Held, Refused, Waiting
from tests.servers.mariadb_server import MariadbServer
from tests.stores.mysql.conftest import WITHIN_S, Direct
from tests.torture.scale import times

CREW = 4
ROUNDS = times(500, 60)


def at_once(crew: int, act: Callable[[int], Any]) -> list[Any]:
    """The results of ``crew`` threads that call ``act`` at the same moment."""
    gate = threading.Barrier(crew)
    found: list[Any] = [None] * crew

    def work(number: int) -> None:
        gate.wait(WITHIN_S)
        found[number] = act(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(crew)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


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


def test_no_more_enter_at_once_than_fit(direct: Direct, own_name: str) -> None:
    for turn in range(ROUNDS // 2):
        # Given a semaphore of two with one holder, so that its line exists
        name = f"{own_name}:{turn}"
        first = direct.join(direct.claim(name, 1, permits=2))
        numbers = [CREW * turn + at + 2 for at in range(CREW)]
        # When several claims try it at the same moment
        answers = at_once(
            CREW,
            lambda at: direct.join(direct.claim(name, numbers[at], permits=2)),  # noqa: B023
        )
        # Then one of them holds
        held = [one for one in answers if isinstance(one, Held)]
        assert len(held) == 1, answers
        assert held[0].fence > first.fence


def test_time_and_tickets_are_those_after_the_wait_for_the_lock(
    direct: Direct, shared_mariadb: MariadbServer, own_name: str
) -> None:
    # Given a name whose row another session has locked, and which gets a greater ticket there
    direct.join(direct.claim(own_name, 1, ttl=0.01))
    time.sleep(0.02)
    here = "WHERE name = %s"
    with shared_mariadb.connect() as other, other.cursor() as cursor:
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
    ((since, expires),) = shared_mariadb.ask(
        f"SELECT since, expires FROM holdfast.holdfast_lines {here}", own_name
    )
    assert since >= freed
    assert expires == since + 30_000_000


def test_tickets_rise_though_the_servers_clock_goes_back(
    direct: Direct, shared_mariadb: MariadbServer, own_name: str
) -> None:
    first = direct.join(direct.claim(own_name, 1, ttl=0.01))
    time.sleep(0.02)
    ahead = first.fence + 10_000_000
    shared_mariadb.ask(
        "UPDATE holdfast.holdfast_lines SET last = %s WHERE name = %s", ahead, own_name
    )
    assert direct.join(direct.claim(own_name, 2)).fence == ahead + 1


def test_a_row_that_stays_locked_is_no_answer_and_leaves_nothing(
    locks: Client, shared_mariadb: MariadbServer, own_name: str
) -> None:
    locks.lock(own_name).acquire().release()
    with shared_mariadb.connect() as other, other.cursor() as cursor:
        cursor.execute("SELECT last FROM holdfast_lines WHERE name = %s FOR UPDATE", (own_name,))
        with pytest.raises(ConnectionError, match="is unknown whether the name is free"):
            locks.lock(own_name).acquire(timeout=0.3)
        other.rollback()
    end = time.monotonic() + WITHIN_S
    while locks.inspect(own_name):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    "one, other", [("a", "A"), ("a", "a "), ("é", "e"), ("a", "a\0"), ("ß", "ss")]
)
def test_names_that_differ_in_any_byte_never_collide(
    one: str, other: str, direct: Direct, own_name: str
) -> None:
    assert isinstance(direct.join(direct.claim(own_name + one, 1)), Held)
    assert isinstance(direct.join(direct.claim(own_name + other, 2)), Held)
    assert isinstance(direct.join(direct.claim(own_name + one, 3)), Refused)


def test_no_name_owner_or_note_is_taken_for_sql(locks: Client, own_name: str) -> None:
    evil = own_name + "'\"\\%s;--` \0\n{}" + chr(0x1F600)
    with locks.lock(evil) as hold:
        (line,) = locks.inspect(evil, exact=True)
        assert (line.name, line.claims[0].fence) == (evil, hold.fence)
        assert [one.name for one in locks.inspect(evil[:-1])] == [evil]


def test_a_long_line_is_served_in_order_and_each_join_takes_as_long(
    direct: Direct, own_name: str
) -> None:
    direct.join(direct.claim(own_name, 1))
    took = []
    for number in range(2, times(10_000, 400)):
        begun = time.perf_counter()
        answer = direct.join(direct.claim(own_name, number), wait=True)
        took.append(time.perf_counter() - begun)
        assert isinstance(answer, Waiting)
        assert answer.position <= number - 1  # the first ones expire after a while
    part = len(took) // 4
    # The fastest joins count, because the others mostly show the machine's other work
    first, last = min(took[:part]), min(took[-part:])
    print(f"the quickest join of the first and of the last quarter: {first:.5f} s, {last:.5f} s")
    assert last < 5 * first
