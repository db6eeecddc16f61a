"""Fences of the embedded store after changes of the wall clock."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.model import Held
from holdfast.runtime.blocking import walltime
from holdfast.stores.sqlite.blocking import header, world
from holdfast.testing.faults import delete
from tests.stores.sqlite.desk import Desk, claim

HOUR_S = 3600.0


def _set_wall_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    monkeypatch.setattr(header, "walltime", lambda: walltime() + by_s)


def _fence(desk: Desk, name: str = "refund") -> int:
    answer = desk.join(claim(name), wait=False)
    assert isinstance(answer, Held)
    return answer.fence


@pytest.mark.parametrize("part", ["locks.db", "locks.db-lone", "locks.db.d"])
def test_a_clock_set_back_before_a_part_was_deleted_lets_no_fence_fall(
    part: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given fences of the present time, and no process that uses the files
    monkeypatch.setattr(world, "UNKNOWN_S", 0.5)
    with Desk(path) as desk:
        last = max(desk.hold(claim(f"name {number}", ttl=1.0)) for number in range(5))
    # When the wall clock is set back, and a part of the files is deleted
    _set_wall_clock(monkeypatch, -HOUR_S)
    assert delete(path.with_name(part))
    # Then fences still rise, because the other files hold the last fence
    with Desk(path) as desk:
        assert desk.hold(claim()) > last


def test_a_clock_set_forward_and_back_again_lets_no_fence_fall(
    desk: Callable[..., Desk], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given files that were made while the wall clock was ahead
    with monkeypatch.context() as ahead:
        _set_wall_clock(ahead, HOUR_S)
        first = desk()
        last = _fence(first, "first")
    # When the wall clock is right again, then fences continue to rise for both an old and a new
    # client
    assert _fence(first, "second") > last
    with Desk(path) as late:
        assert _fence(late, "third") > last + 1


def test_all_files_deleted_with_a_clock_ahead_begin_at_the_clock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Desk(path) as desk:
        last = _fence(desk)
    shutil.rmtree(path.with_name("locks.db.d"))
    delete(*path.parent.iterdir())
    _set_wall_clock(monkeypatch, HOUR_S)
    with Desk(path) as desk:
        assert _fence(desk) >= last + HOUR_S * 1e6 - 1e6
