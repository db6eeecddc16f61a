"""Full disks and deleted files while processes work: no two holds overlap, and no claim is left."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Client, HoldfastError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import NoSmallDisk, SmallDisk, delete, dice, no_file_longer
from holdfast.testing.histories import judge_files, tell
from holdfast.testing.torture import Options, Scene, Trouble, run
from tests.torture.scale import times

LASTS_S = times(15, 3)


class Deletes:
    """A trouble: a part of the store is deleted."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def strike(self, scene: Scene) -> str:
        delete(*self._paths)
        return "deleted"

    def calm(self, now: float) -> None:
        """The next request makes it again."""


class Fills:
    """A trouble: the disk is full for a moment."""

    def __init__(self, disk: SmallDisk) -> None:
        self._disk = disk
        self._until = math.inf

    def strike(self, scene: Scene) -> str:
        self._disk.fill()
        self._until = boottime() + scene.dice.random() * 0.3
        return "full"

    def calm(self, now: float) -> None:
        """Make room again."""
        if self._until <= now:
            self._disk.clear()
            self._until = math.inf


def is_survived(url: str, folder: Path, trouble: Trouble, every: float) -> None:
    """Check that processes under this trouble break no promise, and that all work afterwards."""
    seed, begun = dice(type(trouble).__name__).randrange(1 << 32), boottime()
    options = Options(url, LASTS_S, seed, processes=4, names=1, ttl=2.0, folder=str(folder))
    outcome = run(options._replace(strikes=(), every=0.0, trouble=every), [trouble])
    # All workers must open a deleted store again, so some time-outs can be exceeded a little. The
    # same is true of pauses of the machine.
    verdict = judge_files(*folder.glob("*.jsonl"), grace=3.0 + lag.since(begun))
    print(outcome, tell(verdict))
    verdict.demand()
    assert outcome.troubles == []
    assert sum(outcome.strikes.values()) > 2
    with Client(url) as client:
        hold = client.lock("x").acquire(timeout=10)
        assert hold is not None
        hold.release()
        assert client.inspect() == []


def parts(url: str) -> dict[str, list[Path]]:
    """Return the files of a store, by the names that the tests use."""
    database = Path(url.removeprefix("sqlite://"))
    beside = Path(f"{database}.d")
    return {
        "database": [database],
        "log": [Path(f"{database}-wal"), Path(f"{database}-shm")],
        "gate": [beside / "gate"],
        "sessions": [beside / "sessions"],
        "folder": [beside],
    }


@pytest.mark.usual(2)
@pytest.mark.parametrize("what", ["database", "log", "gate", "sessions", "folder"])
def test_files_deleted_under_load_cause_no_overlap(what: str, url: str, tmp_path: Path) -> None:
    lag.watch()
    is_survived(url, tmp_path / "histories", Deletes(*parts(url)[what]), 0.4)


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with contextlib.ExitStack() as ends:
        try:
            small = ends.enter_context(SmallDisk(12 << 20))
        except NoSmallDisk as reason:
            pytest.skip(f"needs the right to mount: {reason}")
        yield small


def test_a_disk_that_is_full_at_times_causes_no_overlap_and_no_leftover(
    disk: SmallDisk, tmp_path: Path
) -> None:
    lag.watch()
    is_survived(f"sqlite://{disk.folder}/locks.db", tmp_path / "histories", Fills(disk), 0.3)


def test_what_is_held_can_be_released_on_a_full_disk(disk: SmallDisk) -> None:
    url = f"sqlite://{disk.folder}/locks.db"
    with Client(url) as client, Client(url) as other:
        holds = [client.lock(f"x{n}").acquire() for n in range(20)]
        holds += [client.semaphore("s", 5).acquire() for _ in range(5)]
        disk.fill()

        # Then no unstored claim is granted, and the error names the cause
        def more() -> None:
            while len(holds) < 2000:
                holds.append(client.semaphore("many", 5000).acquire(timeout=0.1))

        with pytest.raises(StoreUnavailable, match="full"):
            more()
        assert all(hold.release() for hold in holds)
        disk.clear()
        assert other.inspect() == []


def test_files_that_may_not_grow_are_a_clear_error(url: str) -> None:
    # Given a process whose quota is used up before the store is made
    with no_file_longer(5000), pytest.raises(HoldfastError) as told, Client(url) as client:
        client.lock("x").acquire(timeout=1)
    assert url.removeprefix("sqlite://") in str(told.value)
    # When there is room, then the store is made as usual
    with Client(url) as client:
        client.lock("x").acquire().release()
