"""Fences never fall and are never given twice: after kills, deletions, interrupts, clock
changes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.model import Held, Waiting
from holdfast.stores.sqlite.blocking import header
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim

SEED = random.SystemRandom().randrange(1 << 32)


def test_tickets_are_reserved_on_the_disk_before_they_are_given(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a store near the end of its block of tickets
    here = desk()
    assert here.free()
    words = here.engine._files.words
    limit = words[header.LIMIT]
    words[header.NEXT] = limit - 2
    # When a few more tickets are given
    fences = []
    for _ in range(5):
        fences.append(here.hold(wanted := claim()))
        assert here.leave(wanted, fences[-1])
    # And the tickets of waiters are counted too
    words[header.NEXT] = limit + header.BLOCK - 1
    for _ in range(3):
        answer = here.join(claim("busy"))
        assert isinstance(answer, Held | Waiting)
        fences.append(answer[0])
    limit += header.BLOCK
    # Then they still rise, and the new limit is in the file and in the database
    assert fences == sorted(set(fences))
    page = (path.with_name("locks.db.d") / "gate").read_bytes()
    on_disk = int.from_bytes(page[8 * header.LIMIT : 8 * header.LIMIT + 8], "little")
    assert on_disk >= limit + header.BLOCK > fences[-1]
    assert int(here.engine._files.database.meta("limit")) == on_disk


def test_a_limit_counts_only_when_it_is_on_the_disk(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store at the end of its block, and an interrupt before the next limit is on the disk
    here = desk()
    assert here.free()
    words = here.engine._files.words
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
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that has given half of its block, and another client that holds a lock
    here, other = desk(), desk()
    kept = other.hold(holding := claim("other"))
    assert here.free()
    words = here.engine._files.words
    limit = words[header.LIMIT]
    for act in (lambda: here.hold(claim("lone")), lambda: here.join(claim("other"))):
        words[header.NEXT] = words[header.LIMIT] - header.AHEAD
        before = words[header.LIMIT]
        fences: list[int] = []

        def slow(page: header.Header, before: int = before, fences: list[int] = fences) -> None:
            # When the disk is slow, other clients still renew and acquire
            answer = other.join(claim(f"{before}"), True, 1.0)
            assert isinstance(answer, Held)
            assert isinstance(other.keep(holding, kept), Held)
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
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a client that reserves the next block, but whose disk fails
    here = desk()
    assert here.free()
    words = here.engine._files.words
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


def test_fences_rise_over_kills_and_deletions(path: Path) -> None:
    # Given writers that are killed at any moment, and files that are deleted in between
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    seen: list[int] = []

    def writer(child: Child) -> None:
        here = Desk(path)
        while True:
            fence = here.hold(wanted := claim(f"name-{os.getpid() % 3}"))
            child.say(fence)
            assert here.leave(wanted, fence)

    for turn in range(30):
        with Child(writer) as child:
            told = [int(child.hear()) for _ in range(dice.randrange(11, 40))]
            time.sleep(dice.random() * 0.01)
            child.send(signal.SIGKILL)
            told += [int(line) for line in child.rest() if line.isdigit()]
        # Then every fence is greater than all before it
        assert told == sorted(set(told))
        assert not seen or not told or told[0] > seen[-1], turn
        seen += told
        if turn % 5 == 4:
            for file in path.parent.iterdir():
                shutil.rmtree(file) if file.is_dir() else file.unlink()
    print(f"{len(seen)} fences")
    assert len(seen) > 300


def test_fences_rise_although_the_wall_clock_was_set_back(
    path: Path, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that has granted fences, and whose file mutex was then deleted
    first = desk()
    fence = first.hold(wanted := claim())
    assert first.leave(wanted, fence)
    first.close()
    shutil.rmtree(path.with_name("locks.db.d"))
    # When the wall clock is a year behind
    now = time.time()
    monkeypatch.setattr(header, "walltime", lambda: now - 365 * 86_400)
    # Then fences still rise, because the database contains the reserved limit
    assert desk().hold(claim()) > fence
