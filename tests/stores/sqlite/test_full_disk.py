"""A full disk is an immediate error, whatever the time-out; with room again, all verbs work."""

from __future__ import annotations

import contextlib
import errno
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.core.guard.model import EntryState
from holdfast.core.ports import DiskFailed
from holdfast.stores.sqlite.blocking.database import explain
from holdfast.stores.sqlite.blocking.doctor import examine
from holdfast.testing.faces import Face
from holdfast.testing.faults import NoSmallDisk, SmallDisk
from holdfast.url import find
from tests.servers.process import until
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.products import each_face, never

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


@pytest.fixture
def path(disk: SmallDisk) -> Path:
    """A database that doesn't exist yet, on the separate disk."""
    return disk.folder / "locks.db"


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


USES: dict[str, Callable[[AsyncClient, int], Awaitable[object]]] = {
    "lock": lambda client, n: client.lock(f"{LONG}{n}").acquire(timeout=PATIENCE_S),
    "all": lambda client, n: client.all(f"{LONG}{n}a", f"{LONG}{n}b").acquire(timeout=PATIENCE_S),
    "queue": lambda client, n: client.queue("q").put(LONG * 100),
}


@each_face
@pytest.mark.parametrize("use", USES)
def test_a_full_disk_is_an_error_at_once_and_all_works_with_room_again(
    use: str, face: Face, disk: SmallDisk, url: str
) -> None:
    async def fails() -> None:
        async with face.client(url) as client:
            for number in range(20_000):  # the log can have room for a few more calls
                with Told() as told:
                    await USES[use](client, number)
                if told.text:
                    assert "full" in told.text
                    return
        raise AssertionError("the disk is not full")

    # Given a store in use
    with Client(url) as client:
        client.lock(LONG).acquire(timeout=5).release()
        client.queue("q").put(b"first")
        # When its disk is full, then each use fails immediately
        disk.fill()
        face.run(fails, 100.0)
        # And when there is room again, all verbs work, and no claim is left
        disk.clear()
        assert client.inspect(LONG) == []
        client.lock(LONG).acquire(timeout=5).release()
        client.queue("q").put(b"last")


def test_what_is_there_can_be_released_settled_and_invalidated_on_a_full_disk(
    disk: SmallDisk, path: Path, client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a lone hold, a hold with a waiter, delivered jobs, a value, and a full disk
    holds = [client.lock(name).acquire(timeout=5) for name in ("lone", "busy")]
    waiter = threading.Thread(
        target=lambda: other.lock("busy").acquire(timeout=PATIENCE_S).release()
    )
    waiter.start()
    until(lambda: client.inspect("busy")[0].waiters, "it waits")
    queue, guard = client.queue("q"), client.guard("g", ttl=600, lease=600)
    queue.put_many(range(20))
    jobs = queue.take_many(10, timeout=0)
    assert guard.get(lambda: "there") == "there"
    disk.fill()
    # When a value can't be stored, then the caller that computed it still gets it, soon
    with caplog.at_level(logging.WARNING, "holdfast"):
        for number in range(200):
            begun = time.monotonic()
            assert guard.get(lambda: LONG * 1000, key=str(number)) == LONG * 1000
            assert time.monotonic() - begun < AT_ONCE_S
    assert "was computed, but not stored" in caplog.text
    # And no refresh lease and no old value is stuck, and all the rest can end
    assert not guard.inspect("199").owner
    assert guard.get(never) == "there"
    assert guard.invalidate() == 1
    assert guard.inspect().state is EntryState.MISSING
    assert all(hold.release() for hold in holds)
    waiter.join(PATIENCE_S)
    assert all(job.ack() for job in jobs)
    with contextlib.suppress(StoreUnavailable):
        assert all(job.ack() for job in queue.take_many(5, timeout=0))
    # And with room again, nothing is left
    disk.clear()
    assert client.inspect() == []
    assert queue.stats().accepted == 20
    audit(path)
    assert guard.get(lambda: "b", key="after") == "b"


def test_a_new_client_on_a_full_disk_gets_an_error_at_once(disk: SmallDisk, client: Client) -> None:
    disk.fill()
    with Told() as told:
        client.lock("x").acquire(timeout=PATIENCE_S)
    assert "No space left" in told.text or "is full" in told.text


def test_a_waiter_gets_an_error_at_once_when_the_disk_fails(tmp_path: Path) -> None:
    # Given a waiter whose next request fails on the disk
    url = f"sqlite://{tmp_path}/locks.db"
    with Client(url) as holder, Client(url) as other:
        hold = holder.lock("x").acquire()

        async def turn(*_: object) -> Any:
            raise DiskFailed("the disk of locks.db is full")

        other._ctx.store.turn = turn  # type: ignore[method-assign]
        found: list[str] = []

        def wait() -> None:
            with Told() as told:
                other.lock("x", auto_renew=False).acquire(timeout=PATIENCE_S)
            found.append(told.text)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: holder.inspect("x")[0].waiters, "it waits")
        # When the waiter asks again, then it gets the error and leaves the line
        hold.release()
        thread.join(PATIENCE_S)
        assert "is full" in found[0]
        assert holder.inspect("x") == []


@pytest.mark.usual(5)
@pytest.mark.parametrize(
    "number, disk_failed",
    [
        *((one, True) for one in (errno.ENOSPC, errno.EDQUOT, errno.EIO)),
        *((one, False) for one in (errno.EMFILE, errno.ENFILE)),  # they are waited for
    ],
)
def test_a_disk_error_of_the_system_is_raised_as_disk_failed(
    number: int, disk_failed: bool
) -> None:
    wrong = explain(OSError(number, "said"), "/there", opening=False)
    if disk_failed:
        assert isinstance(wrong, DiskFailed)
        assert "/there" in str(wrong)
    else:
        assert isinstance(wrong, StoreUnavailable)
        assert not isinstance(wrong, DiskFailed)


@contextlib.contextmanager
def read_only(disk: SmallDisk) -> Iterator[None]:
    """Make the file system read-only inside the block."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk.folder)], check=True)


def test_a_read_only_file_system_is_named_by_every_verb_and_by_doctor(
    disk: SmallDisk, url: str
) -> None:
    # Given a store on a file system that was made read-only
    with Client(url) as client:
        client.lock("x").acquire(timeout=5).release()
    with read_only(disk):
        # Then a client gets an error immediately
        begun = time.monotonic()
        with Client(url) as client, pytest.raises(Exception, match="read-only file system"):
            client.lock("x").acquire(timeout=PATIENCE_S)
        assert time.monotonic() - begun < AT_ONCE_S
        # And the doctor reports it, with a remedy that fits
        said = [f"{one.text} {one.remedy}" for one in examine(find(url)[1])]
        assert any("read-only" in one for one in said), said
        assert not any("mode 600" in one for one in said), said


def test_doctor_names_a_read_only_file_system_without_a_store(disk: SmallDisk, url: str) -> None:
    with read_only(disk):
        said = subprocess.run(
            [sys.executable, "-m", "holdfast", "doctor", "--url", url],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert "read-only" in said.stdout + said.stderr
    assert said.returncode
