"""The writes that a fenced file accepts, refuses and keeps, as one process sees them."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigError, FenceRejected, LockLost, NotAcquired, NotHeld
from holdfast.fenced import FencedFile
from holdfast.fenced.blocking import lock
from holdfast.fenced.blocking.files import place


@pytest.fixture
def ledger(tmp_path: Path) -> FencedFile:
    return FencedFile(tmp_path / "ledger", durable=False)


class Hold:
    """A hold as the fenced writer sees it; with ``fails``, its check number ``at`` raises."""

    def __init__(self, fence: int, *, fails: Exception | None = None, at: int = 1) -> None:
        self.fence, self.fails, self.at, self.checks = fence, fails, at, 0

    def check(self) -> None:
        self.checks += 1
        if self.fails and self.checks >= self.at:
            raise self.fails


def test_a_smaller_fence_is_refused_and_leaves_no_trace(ledger: FencedFile) -> None:
    # Given a file that has accepted fence 7
    ledger.append(7, "paid 42\n")
    # When an older holder appends or replaces
    for write in (ledger.append, ledger.replace):
        with pytest.raises(FenceRejected) as told:
            write(6, "paid 42\n")
        # Then the error names the file, both fences and their meaning
        for part in (str(ledger.path), "fence 6", "fence 7", "lost", "acquire it again"):
            assert part in str(told.value)
        assert (told.value.fence, told.value.greatest) == (6, 7)
    # And the file is unchanged
    assert ledger.read() == b"paid 42\n"
    assert ledger.fence() == 7


def test_equal_and_greater_fences_are_accepted(ledger: FencedFile) -> None:
    # An empty write moves the fence, too
    for write, fence, data, seen in (
        (ledger.append, 3, "", b""),
        (ledger.append, 7, "a", b"a"),
        (ledger.append, 7, b"b", b"ab"),
        (ledger.append, 9, memoryview(b"c"), b"abc"),
        (ledger.replace, 9, "d", b"d"),
        (ledger.replace, 11, bytearray(b"e"), b"e"),
        (ledger.append, 11, "f", b"ef"),
        (ledger.replace, 12, "", b""),
    ):
        write(fence, data)  # type: ignore[operator]
        assert (ledger.read(), ledger.fence()) == (seen, fence)


def test_a_hold_is_checked_before_and_after_the_file_is_locked(ledger: FencedFile) -> None:
    # Given a hold that is held, it writes with its fence
    good = Hold(5)
    ledger.append(good, "a")
    assert (ledger.fence(), good.checks) == (5, 2)
    # When it is lost, released, or lost while the call waits for the file
    for lost in (
        Hold(6, fails=LockLost("lost")),
        Hold(6, fails=NotHeld("released")),
        Hold(6, fails=LockLost("lost meanwhile"), at=2),
    ):
        with pytest.raises((LockLost, NotHeld)) as told:
            ledger.append(lost, "b")
        # Then the hold's own error is raised, and the file and its fence are unchanged
        assert told.value is lost.fails
    assert (ledger.read(), ledger.fence()) == (b"a", 5)


@pytest.mark.parametrize(
    "fence, data, words",
    [
        *((wrong, "a", "") for wrong in (0, -1, 2**63, True, 1.0, None, b"8", object())),
        ("7", "a", "HOLDFAST_FENCE"),
        *((1, wrong, "bytes or text") for wrong in (None, 7, ["a"])),
        (1, "\ud800", "lone surrogate"),
    ],
)
def test_what_is_no_fence_or_no_data_is_refused_before_anything_is_made(
    ledger: FencedFile, fence: Any, data: Any, words: str
) -> None:
    for write in (ledger.append, ledger.replace):
        with pytest.raises(ConfigError, match=words or None):
            write(fence, data)
    assert os.listdir(ledger.path.parent) == []


def test_an_existing_file_is_fenced_from_its_first_write(tmp_path: Path) -> None:
    # Given a private file with contents
    path = tmp_path / "old"
    path.write_bytes(b"old ")
    path.chmod(0o640)
    ledger = FencedFile(path)
    assert (ledger.read(), ledger.fence()) == (b"old ", 0)
    # When it is written through a fenced writer
    ledger.append(4, "new")
    # Then the data is appended, and the sidecar has the same access rights as the file
    assert ledger.read() == b"old new"
    assert stat.S_IMODE((tmp_path / "old.fence").stat().st_mode) == 0o640


def test_reading_a_missing_file_raises_file_not_found(ledger: FencedFile) -> None:
    with pytest.raises(FileNotFoundError):
        ledger.read()
    assert ledger.fence() == 0
    ledger.append(1, "a")
    ledger.path.unlink()
    with pytest.raises(FileNotFoundError):
        ledger.read()
    assert ledger.fence() == 1


def test_a_damaged_or_foreign_sidecar_is_refused_and_left_alone(
    ledger: FencedFile, tmp_path: Path
) -> None:
    ledger.append(5, "a")
    ledger.append(5, "b")
    sidecar = tmp_path / "ledger.fence"
    whole = sidecar.read_bytes()
    for damage in (
        b"hello",
        whole[:4096],
        whole[:-1],
        whole + b"x",
        whole.replace(b"fence=", b"FENCE="),
    ):
        sidecar.write_bytes(damage)
        for call in (ledger.read, ledger.fence, lambda: ledger.append(9, "c")):
            with pytest.raises(ConfigError, match=r"ledger\.fence"):
                call()
        assert sidecar.read_bytes() == damage
    assert ledger.path.read_bytes() == b"ab"


def test_what_others_did_to_a_settled_file_is_never_cut(ledger: FencedFile) -> None:
    # Given a file whose last append is settled
    ledger.append(5, "first\n")
    ledger.append(5, "second\n")
    # When another program shortens, lengthens or changes it
    for contents in (b"first\nsecon", b"first\nSECOND\n", b"first\nsecond\nby hand", b"", b"f"):
        ledger.path.write_bytes(contents)
        # Then the changed contents are read, and the next append continues after them
        assert ledger.read() == contents
        ledger.append(5, "next\n")
        assert ledger.read() == contents + b"next\n"


def test_a_call_waits_no_longer_than_its_timeout(tmp_path: Path) -> None:
    fenced = FencedFile(tmp_path / "x", durable=False, timeout=0.05)
    fenced.append(1, "a")
    whose = f"process {os.getpid()} is in the middle"
    with lock.locked(place(str(fenced.path)), True, 1.0):
        for call in (fenced.read, fenced.fence, lambda: fenced.append(2, "b")):
            with pytest.raises(NotAcquired, match=whose) as told:
                call()
            assert told.value.name == str(fenced.path)
            assert 0.05 <= told.value.waited < 20
        once = FencedFile(tmp_path / "x", timeout=0)
        with pytest.raises(NotAcquired):
            once.append(2, "b")
    fenced.append(2, "b")
    assert fenced.read() == b"ab"
    for wrong in (-2, float("nan"), "1"):
        with pytest.raises(ConfigError):
            FencedFile(tmp_path / "x", timeout=wrong)  # type: ignore[arg-type]


def test_a_sidecar_that_is_replaced_while_one_waits_is_noticed(tmp_path: Path) -> None:
    # Given a writer that waits for the sidecar
    fenced = FencedFile(tmp_path / "x", durable=False)
    fenced.append(5, "a")
    where = place(str(fenced.path))
    writer = threading.Thread(target=fenced.append, args=(3, "late"))
    with lock.locked(where, True, 1.0):
        writer.start()
        end = time.monotonic() + 10
        while times_open(where.note) < 2:
            assert time.monotonic() < end
            time.sleep(0.001)
        # When the sidecar is deleted, and another writer makes a new one
        where.note.unlink()
        FencedFile(where.data).append(2, "b")
    writer.join(10)
    # Then its write is recorded in the new sidecar, not in the deleted one
    assert fenced.fence() == 3
    assert fenced.read() == b"ablate"


def times_open(path: Path) -> int:
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += fd.samefile(path)
    return found


def test_threads_lose_nothing(ledger: FencedFile) -> None:
    def write(who: int) -> None:
        for turn in range(50):
            ledger.append(1, f"{who}.{turn}\n")

    with ThreadPoolExecutor(4) as pool:
        [*pool.map(write, range(4))]
    lines = ledger.read().decode().split()
    assert len(lines) == 200
    for who in range(4):
        assert [x for x in lines if x.startswith(f"{who}.")] == [f"{who}.{n}" for n in range(50)]
