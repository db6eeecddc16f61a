"""Fences never fall: tickets are reserved on the disk before they are given, whatever the clock."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.model import Held
from holdfast.runtime.blocking import walltime
from holdfast.stores.sqlite.blocking import header, world
from holdfast.testing.faults import delete
from tests.stores.sqlite.desk import Desk, claim


@pytest.fixture
def here(desk: Callable[..., Desk]) -> Desk:
    """A client that has used the store."""
    made = desk()
    assert made.free()
    return made


@pytest.fixture
def words(here: Desk) -> Any:
    """The page of the file mutex."""
    return here.engine._files.words


def test_tickets_are_reserved_on_the_disk_before_they_are_given(
    path: Path, here: Desk, words: Any
) -> None:
    # When a store at the end of its block gives a few more tickets, some of them to waiters
    limit = words[header.LIMIT]
    words[header.NEXT] = limit - 2
    fences = [here.hold(claim(f"{number}")) for number in range(5)]
    words[header.NEXT] = limit + header.BLOCK - 1
    fences += [here.join(claim("busy"))[0] for _ in range(3)]  # type: ignore[misc]
    # Then they still rise, and the new limit is in the file and in the database
    assert fences == sorted(set(fences))
    page = (path.with_name("locks.db.d") / "gate").read_bytes()
    on_disk = int.from_bytes(page[8 * header.LIMIT : 8 * header.LIMIT + 8], "little")
    assert on_disk >= limit + 2 * header.BLOCK > fences[-1]
    assert int(here.engine._files.database.meta("limit")) == on_disk


def test_a_limit_counts_only_when_it_is_on_the_disk(
    here: Desk, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store at the end of its block, and an interrupt before the next limit is on the disk
    limit = words[header.NEXT] = words[header.LIMIT]

    def struck(page: header.Header) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(header.Header, "sync", struck)
        with pytest.raises(KeyboardInterrupt):
            here.join(claim())
    # Then no client sees the new block as reserved
    assert words[header.LIMIT] == limit
    # And the next request reserves the block and continues
    synced: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(header.Header, "sync", lambda page: synced.append(page.words[header.NEXT]))
        assert here.hold(claim()) >= limit
    assert synced == [limit]


def test_no_verb_waits_while_the_next_tickets_are_written_to_disk(
    desk: Callable[..., Desk], here: Desk, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that has given half of its block, and another client that holds a lock
    other = desk()
    kept = other.hold(holding := claim("other"))
    limit = words[header.LIMIT]
    for act in (lambda: here.hold(claim("lone")), lambda: here.join(claim("other"))):
        words[header.NEXT] = words[header.LIMIT] - header.AHEAD
        before = words[header.LIMIT]
        fences: list[int] = []

        def slow(page: header.Header, before: int = before, fences: list[int] = fences) -> None:
            # When the disk is slow, other clients still renew and acquire
            answer = other.join(claim(f"{before}"), True, 1.0)
            assert isinstance(answer, Held)
            assert isinstance(other.renew(holding, kept), Held)
            fences.append(answer.fence)
            # And until the new limit is on the disk, no ticket of the new block is given
            assert words[header.LIMIT] == before < words[header.RESERVED]

        with monkeypatch.context() as patch:
            patch.setattr(header.Header, "sync", slow)
            act()
        # Then the block was reserved once, and its limit is valid
        assert len(fences) == 1
        assert words[header.LIMIT] == words[header.RESERVED] == before + header.BLOCK
    assert words[header.LIMIT] == limit + 2 * header.BLOCK


def test_tickets_that_could_not_be_written_to_disk_are_not_used(
    here: Desk, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a client that reserves the next block, but whose disk fails
    limit = words[header.LIMIT]
    words[header.NEXT] = limit - header.AHEAD

    def fails(page: header.Header) -> None:
        raise OSError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(header.Header, "sync", fails)
        fences = [here.hold(claim()), here.hold(claim("next"))]
        assert words[header.LIMIT] == limit
    # When all tickets of the block are given, then the next request writes the limit itself
    words[header.NEXT] = limit
    fences.append(here.hold(claim("last")))
    assert fences == sorted(set(fences))
    assert words[header.LIMIT] == words[header.RESERVED] > limit + header.BLOCK


# -- clocks, deleted files and restored files -----------------------------------------------------

HOUR_S = 3600.0


def _set_wall_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    monkeypatch.setattr(header, "walltime", lambda: walltime() + by_s)


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
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given files that were made while the wall clock was ahead
    with monkeypatch.context() as ahead:
        _set_wall_clock(ahead, HOUR_S)
        first = desk()
        last = first.hold(claim("first"))
    # When the clock is right again, then fences continue to rise for old and new clients
    assert first.hold(claim("second")) > last
    assert desk().hold(claim("third")) > last + 1


def test_all_files_deleted_with_a_clock_ahead_begin_at_the_clock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Desk(path) as desk:
        last = desk.hold(claim())
    shutil.rmtree(path.with_name("locks.db.d"))
    delete(*path.parent.iterdir())
    _set_wall_clock(monkeypatch, HOUR_S)
    with Desk(path) as desk:
        assert desk.hold(claim()) >= last + HOUR_S * 1e6 - 1e6


def test_fences_rise_though_an_old_copy_of_all_files_was_put_back(tmp_path: Path) -> None:
    # Given a copy of a store, and fences granted after the copy
    folder, copy = tmp_path / "locks", tmp_path / "copy"
    folder.mkdir(mode=0o700)
    url = f"sqlite://{folder}/locks.db"
    with Client(url, ttl=1) as client:
        client.lock("x").acquire().release()
    shutil.copytree(folder, copy)
    with Client(url, ttl=1) as client:
        for _ in range(201):
            last = client.lock("x").acquire(timeout=5)
            last.release()
    # When the copy is put back
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    # Then the next fence is greater than all earlier ones
    with Client(url, ttl=1) as client, client.lock("x", timeout=30) as hold:
        assert hold.fence > last.fence
