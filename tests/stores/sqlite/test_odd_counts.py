"""A row that was changed from outside never makes room for two of those who come after it."""

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
#: What is in line: weights of readers and writers, in order. The more, the less is read at once.
LINES = ((1, 1), (WRITER, 1), (1, WRITER), (1,) * 6, (WRITER, *[1] * 5))


def wanted(weight: int) -> Claim:
    """A claim of a reader or a writer."""
    return claim("rw", kind=Kind.RWLOCK, capacity=WRITER, weight=weight)


def replaced(path: Path, column: str, at: int, value: Any) -> bool:
    """Is the value of this column in the line's row ``at`` another one now?"""
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
            # Given a line, one row of which says something else
            others = [wanted(weight) for weight in weights]
            inside: list[tuple[Claim, Any]] = [(one, here.join(one)) for one in others]
            if not replaced(path, column, at, value):
                continue
            # When those who were in line leave, in any order, amid others who come
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
            # Then no more of those who came later hold than may
            if sum(held.values()) > WRITER:
                wrong.append(f"{case}: {list(held.values())} hold at once")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("readers", [1, 6])
def test_a_waiter_that_weighs_less_than_nothing_makes_no_room(readers: int, path: Path) -> None:
    with Desk(path) as here, Desk(path) as there:
        # Given readers, and a writer that waits and is said to weigh the less
        for weight in [1] * readers + [WRITER]:
            here.join(wanted(weight))
        assert replaced(path, "weight", readers + 1, -readers)
        # When others come, then no writer is let in beside the readers
        for weight in (1, WRITER):
            with contextlib.suppress(HoldfastError):
                assert not isinstance(there.join(wanted(weight), wait=False), Held)
