"""Full disks, deleted files and a locked file mutex while processes work: no two holds overlap."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Client, HoldfastError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import (
    NoSmallDisk,
    SmallDisk,
    Subject,
    delete,
    dice,
    no_file_longer,
)
from holdfast.testing.histories import Recorder, judge_files, tell
from tests.torture.scale import times

WORKERS = 4
TIMEOUT_S = 0.3
LASTS_S = times(15, 3)


@contextlib.contextmanager
def under_load(url: str, folder: Path) -> Iterator[Callable[[], float]]:
    """Run processes that repeatedly acquire one name; judge their histories afterwards.

    Yields a function that returns the number of holds up to now.
    """
    folder.mkdir()
    lag.watch()
    workers, begun = [], boottime()
    try:
        for number in range(WORKERS):
            act = "contends_in_a_loop" if number % 2 else "contends"
            workers.append(
                Subject(f"tests.torture.acts:{act}", url, str(folder), number, TIMEOUT_S)
            )
        for worker in workers:
            assert worker.hear() == "ready"
        yield lambda: judge_files(*folder.glob("*.jsonl")).figures["held"]
        assert [worker.ended for worker in workers] == [None] * WORKERS
    finally:
        nemesis = Recorder(folder / "nemesis.jsonl", "nemesis")
        for number, worker in enumerate(workers):
            nemesis.happened("dead", f"worker-{number}")
            worker.__exit__()
    # All workers must open a deleted store again, so some time-outs can be exceeded a little. The
    # same is true of pauses of the machine.
    verdict = judge_files(*folder.glob("*.jsonl"), grace=3.0 + lag.since(begun))
    print(tell(verdict))
    verdict.demand()


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
    chance = dice(f"deleting the {what}")
    with under_load(url, tmp_path / "histories") as held:
        # When a part of the store is deleted at random intervals
        end = time.monotonic() + LASTS_S
        while time.monotonic() < end:
            time.sleep(chance.random() * 0.8)
            delete(*parts(url)[what])
        # Then work continues: holds are renewed, or the next claims wait until their leases have
        # expired
        before = held()
        begun = time.monotonic()
        while held() < before + 5:
            assert time.monotonic() < begun + 20, "nobody holds any more"
            time.sleep(0.1)


def test_a_disk_that_is_full_at_times_causes_no_overlap_and_no_leftover(
    tmp_path: Path,
) -> None:
    chance = dice("a full disk")
    try:
        with SmallDisk(12 << 20) as disk:
            url = f"sqlite://{disk.folder}/locks.db"
            with under_load(url, tmp_path / "histories") as held:
                end = time.monotonic() + LASTS_S
                while time.monotonic() < end:
                    time.sleep(chance.random() * 0.3)
                    disk.fill()
                    time.sleep(chance.random() * 0.3)
                    disk.clear()
                before = held()
                begun = time.monotonic()
                while held() < before + 5:
                    assert time.monotonic() < begun + 20, "nobody holds any more"
                    time.sleep(0.1)
            with Client(url) as client:
                hold = client.lock("x").acquire(timeout=10)
                assert hold is not None
                hold.release()
                assert client.inspect() == []
    except NoSmallDisk as reason:
        pytest.skip(f"needs the right to mount: {reason}")


def test_what_is_held_can_be_released_on_a_full_disk(tmp_path: Path) -> None:
    # Given holds of every kind
    try:
        with SmallDisk(12 << 20) as disk:
            url = f"sqlite://{disk.folder}/locks.db"
            with Client(url) as client, Client(url) as other:
                holds = [client.lock(f"x{n}").acquire() for n in range(20)]
                holds += [client.semaphore("s", 5).acquire() for _ in range(5)]
                # When the disk is full
                disk.fill()

                # Then no unstored claim is granted, and the error names the cause
                def more() -> None:
                    while len(holds) < 2000:
                        holds.append(client.semaphore("many", 5000).acquire(timeout=0.1))

                with pytest.raises(StoreUnavailable, match="full"):
                    more()
                print(f"{len(holds) - 25} more were held")
                # And everything can be released
                assert all(hold.release() for hold in holds)
                disk.clear()
                assert other.inspect() == []
    except NoSmallDisk as reason:
        pytest.skip(f"needs the right to mount: {reason}")


def test_files_that_may_not_grow_are_a_clear_error(url: str) -> None:
    # Given a process whose quota is used up before the store is made
    with no_file_longer(5000), pytest.raises(HoldfastError) as told, Client(url) as client:
        client.lock("x").acquire(timeout=1)
    print(told.value)
    assert str(url.removeprefix("sqlite://")) in str(told.value)
    # When there is room, then the store is made as usual
    with Client(url) as client:
        client.lock("x").acquire().release()
