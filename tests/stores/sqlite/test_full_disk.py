"""A full disk is an immediate error, whatever the time-out; with room again, all verbs work."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.core.ports import DiskFailed
from holdfast.stores.sqlite.blocking.database import explain
from holdfast.stores.sqlite.blocking.doctor import examine
from holdfast.testing.faults import NoSmallDisk, SmallDisk
from holdfast.url import find

#: Seconds within which an immediate error arrives, even if the machine pauses for 2 s.
AT_ONCE_S = 4.0
#: Seconds that an acquire can wait.
PATIENCE_S = 30.0
#: Texts of this length don't fit into the table of lone claims, so SQLite writes the claim.
LONG = "x" * 400


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """A separate disk for one test."""
    try:
        with SmallDisk(24 << 20) as disk:
            yield disk
    except NoSmallDisk as reason:
        pytest.skip(f"needs the right to mount: {reason}")


def _url(disk: SmallDisk) -> str:
    return f"sqlite://{disk.folder}/locks.db"


class Told:
    """Record the error text of a failing call, and check that the error comes immediately."""

    def __init__(self) -> None:
        self.text = ""
        self._begun = 0.0

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        return self

    def __exit__(self, _: object, wrong: object, trace: object) -> bool:
        if not isinstance(wrong, StoreUnavailable):
            return False
        assert time.monotonic() - self._begun < AT_ONCE_S
        self.text = str(wrong)
        return True


def _until_full(act: Callable[[int], Any]) -> None:
    """Repeat an act until the disk is full: the log can have room for a few more calls."""
    for number in range(20_000):
        with Told() as told:
            act(number)
        if told.text:
            assert "full" in told.text
            return
    raise AssertionError("the disk is not full")


def _locks(url: str) -> None:
    with Client(url) as client:
        _until_full(lambda n: client.lock(f"{LONG}{n}").acquire(timeout=PATIENCE_S))


def _several(url: str) -> None:
    with Client(url) as client:
        _until_full(lambda n: client.all(f"{LONG}{n}a", f"{LONG}{n}b").acquire(timeout=PATIENCE_S))


def _queues(url: str) -> None:
    with Client(url) as client:
        _until_full(lambda n: client.queue("q").put(LONG * 100))


async def _until_full_in_a_loop(act: Callable[[int], Awaitable[Any]]) -> None:
    for number in range(20_000):
        with Told() as told:
            await act(number)
        if told.text:
            assert "full" in told.text
            return
    raise AssertionError("the disk is not full")


def _locks_of_a_loop(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            await _until_full_in_a_loop(
                lambda n: client.lock(f"{LONG}{n}").acquire(timeout=PATIENCE_S)
            )

    asyncio.run(main())


def _queues_of_a_loop(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            await _until_full_in_a_loop(lambda n: client.queue("q").put(LONG * 100))

    asyncio.run(main())


USES = [_locks, _several, _queues, _locks_of_a_loop, _queues_of_a_loop]


@pytest.mark.parametrize(
    "use",
    [_locks, _several, _queues, _locks_of_a_loop, _queues_of_a_loop],
    ids=lambda use: use.__name__,
)
def test_a_full_disk_is_an_error_at_once_and_all_works_with_room_again(
    use: Callable[[str], None], disk: SmallDisk
) -> None:
    # Given a store in use
    with Client(_url(disk)) as client:
        client.lock(LONG).acquire(timeout=5).release()
        client.queue("q").put(b"first")
        # When its disk is full, then each use fails immediately
        disk.fill()
        use(_url(disk))
        # And when there is room again, all verbs work, and no claim is left
        disk.clear()
        assert client.inspect(LONG) == []
        client.lock(LONG).acquire(timeout=5).release()
        client.queue("q").put(b"last")


def test_a_guard_on_a_full_disk_computes_without_waiting(disk: SmallDisk) -> None:
    with Client(_url(disk)) as client:
        guard = client.guard("page", ttl=60)
        assert guard.get(lambda: "a", key="warm") == "a"
        disk.fill()
        for number in range(200):
            begun = time.monotonic()
            assert guard.get(lambda: LONG * 1000, key=str(number)) == LONG * 1000
            assert time.monotonic() - begun < AT_ONCE_S
        disk.clear()
        assert guard.get(lambda: "b", key="after") == "b"


def test_a_new_client_on_a_full_disk_gets_an_error_at_once(disk: SmallDisk) -> None:
    disk.fill()
    with Client(_url(disk)) as client:
        with Told() as told:
            client.lock("x").acquire(timeout=PATIENCE_S)
        assert "No space left" in told.text or "is full" in told.text


def test_a_waiter_gets_an_error_at_once_when_the_disk_fails(tmp_path: Path) -> None:
    # Given a waiter whose next request fails on the disk
    url = f"sqlite://{tmp_path}/locks.db"
    with Client(url) as holder, Client(url) as other:
        hold = holder.lock("x").acquire()

        async def keep(*_: object) -> list[Any]:
            raise DiskFailed("the disk of locks.db is full")

        other._ctx.store.keep = keep  # type: ignore[method-assign]
        found: list[str] = []

        def wait() -> None:
            with Told() as told:
                other.lock("x", auto_renew=False).acquire(timeout=PATIENCE_S)
            found.append(told.text)

        thread = threading.Thread(target=wait)
        thread.start()
        while not (lines := holder.inspect("x")) or not lines[0].waiters:
            time.sleep(0.01)
        # When the waiter asks again, then it gets the error and leaves the line
        hold.release()
        thread.join(PATIENCE_S)
        assert "is full" in found[0]
        assert holder.inspect("x") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_error_of_the_system_is_raised_as_disk_failed(number: int) -> None:
    wrong = explain(OSError(number, "said"), "/there", opening=False)
    assert isinstance(wrong, DiskFailed)
    assert "/there" in str(wrong)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_lack_of_descriptors_is_waited_for(number: int) -> None:
    wrong = explain(OSError(number, "said"), "/there", opening=False)
    assert isinstance(wrong, StoreUnavailable)
    assert not isinstance(wrong, DiskFailed)


def _read_only(disk: SmallDisk, on: bool) -> None:
    mode = "ro" if on else "rw"
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk.folder)], check=True)


def test_a_read_only_file_system_is_named_by_every_verb_and_by_doctor(disk: SmallDisk) -> None:
    # Given a store on a file system that was made read-only
    with Client(_url(disk)) as client:
        client.lock("x").acquire(timeout=5).release()
    _read_only(disk, True)
    try:
        # Then a client gets an error immediately
        begun = time.monotonic()
        with (
            Client(_url(disk)) as client,
            pytest.raises(Exception, match="read-only file system"),
        ):
            client.lock("x").acquire(timeout=PATIENCE_S)
        assert time.monotonic() - begun < AT_ONCE_S
        # And the doctor reports it, with a remedy that fits
        said = list(examine(find(_url(disk))[1]))
        assert any("read-only" in f"{one.text} {one.remedy}" for one in said), said
        assert not any("mode 600" in f"{one.text} {one.remedy}" for one in said), said
    finally:
        _read_only(disk, False)


def test_doctor_names_a_read_only_file_system_without_a_store(disk: SmallDisk) -> None:
    _read_only(disk, True)
    said = subprocess.run(
        [sys.executable, "-m", "holdfast", "doctor", "--url", _url(disk)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "read-only" in said.stdout + said.stderr
    assert said.returncode
