"""A damaged row never lets a reader and a writer hold at the same time."""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.model import Claim, Held, Kind
from holdfast.errors import HoldfastError
from tests.stores.sqlite.desk import Desk, claim
from tests.torture.scale import seed_of, times

WRITER = 1 << 20
COLUMNS = ("held", "weight", "expires", "seat", "state", "ttl", "ticket")
ODD: tuple[Any, ...] = (
    None, 0, 1, 2, -1, WRITER, -WRITER, 2**31, 2**63 - 1, -(2**63), 1e300, "theirs",
)  # fmt: skip
#: Weights of the readers and writers in line, in order. Of a long line, a verb reads only the first
#: claims.
LINES = ((1, 1), (WRITER, 1), (1, WRITER), (1,) * 6, (WRITER, *[1] * 5))


def wanted(weight: int) -> Claim:
    """Return a claim of a reader or a writer."""
    return claim("rw", kind=Kind.RWLOCK, capacity=WRITER, weight=weight)


def replaced(path: Path, column: str, at: int, value: Any) -> bool:
    """Set this column in the row ``at`` of the line. Return True if the row was changed."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as books:
        tickets = books.execute("SELECT ticket FROM claims ORDER BY ticket").fetchall()
        with contextlib.suppress(sqlite3.IntegrityError):
            changed = f"UPDATE claims SET {column} = ? WHERE ticket = ?"
            return books.execute(changed, (value, *tickets[at])).rowcount == 1
    return False


CASES = [
    (weights, column, at, value)
    for weights in LINES
    for column, value in itertools.product(COLUMNS, ODD)
    for at in range(1, len(weights) + 1)
]


def test_after_a_damaged_row_a_reader_and_a_writer_never_both_hold(
    tmp_path: Path, desk: Callable[..., Desk]
) -> None:
    chance = random.Random(seed_of("odd counts"))
    wrong = []
    for number, case in enumerate(chance.sample(CASES, times(len(CASES), 60))):
        weights, column, at, value = case
        path = tmp_path / f"{number}.db"
        with Desk(path) as here, Desk(path) as there, contextlib.suppress(HoldfastError):
            # Given a line with one damaged row
            others = [wanted(weight) for weight in weights]
            inside: list[tuple[Claim, Any]] = [(one, here.join(one)) for one in others]
            if not replaced(path, column, at, value):
                continue
            # When the claims of the line leave in random order, between new claims that arrive
            late = [wanted(weight) for weight in (1, WRITER, 1, WRITER)]
            acts: list[tuple[Claim, int]] = [(one, answer[0]) for one, answer in inside]
            acts += [(one, -1) for one in late]
            chance.shuffle(acts)
            held: dict[str, int] = {}
            for one, fence in acts:
                with contextlib.suppress(HoldfastError):
                    if fence >= 0:
                        there.leave(one, fence)
                    elif isinstance(there.join(one, wait=False), Held):
                        held[one.id] = one.spec.weight
            # Then the new claims together never hold more than the capacity
            if sum(held.values()) > WRITER:
                wrong.append(f"{case}: {list(held.values())} hold at once")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("readers", [1, 6])
def test_a_waiter_that_weighs_less_than_nothing_makes_no_room(readers: int, path: Path) -> None:
    with Desk(path) as here, Desk(path) as there:
        # Given readers, and a waiting writer whose stored weight is negative
        for weight in [1] * readers + [WRITER]:
            here.join(wanted(weight))
        assert replaced(path, "weight", readers + 1, -readers)
        # When others come, then no writer is granted while the readers hold
        for weight in (1, WRITER):
            with contextlib.suppress(HoldfastError):
                assert not isinstance(there.join(wanted(weight), wait=False), Held)
