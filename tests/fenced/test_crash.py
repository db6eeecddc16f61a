"""The file that a death, a full disk or Ctrl-C in the middle of a write leaves behind."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import FenceRejected
from holdfast.fenced import FencedFile
from holdfast.fenced.blocking import files
from holdfast.testing.faults import Strike, no_file_longer
from tests.fenced.process import Child

WHOLE = files.write


class Killer:
    """Kills its own process before the n-th system call that changes anything."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self) -> None:
        """Add a step before every such call of this process; a write is done in two halves."""
        for name in ("pwrite", "fsync", "ftruncate", "replace", "unlink", "fchmod", "open"):
            setattr(os, name, self._before(getattr(os, name)))
        files.write = in_halves(self.step)

    def _before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **more: Any) -> Any:
            self.step()
            return call(*args, **more)

        return stepped


def in_halves(step: Callable[[], object]) -> Callable[[Any, bytes], None]:
    """Write the data in two halves, with a step before, between and after them."""

    def halves(file: Any, payload: bytes) -> None:
        step()
        WHOLE(file, payload[: len(payload) // 2])
        step()
        WHOLE(file, payload[len(payload) // 2 :])
        step()

    return halves


CASES = {
    "first append": (b"", lambda fenced: fenced.append(7, b"second\n"), b"second\n"),
    "append": (b"first\n", lambda fenced: fenced.append(7, b"second\n"), b"first\nsecond\n"),
    "replace": (b"first\n", lambda fenced: fenced.replace(7, b"second\n"), b"second\n"),
    "first replace": (b"", lambda fenced: fenced.replace(7, b"second\n"), b"second\n"),
}


def started(path: Path, case: str, durable: bool) -> FencedFile:
    """A file in its state before a write."""
    fenced = FencedFile(path, durable=durable, timeout=5)
    if CASES[case][0]:
        fenced.append(5, CASES[case][0])
    return fenced


def old_or_new(fenced: FencedFile, case: str, told: bool) -> None:
    """The file is as before or as after; if it shows the new data, older fences are refused."""
    before, _, after = CASES[case]
    seen = fenced.read() if fenced.path.exists() else b""
    assert seen in (before, after)
    assert seen == after or not told
    assert fenced.fence() in ((7,) if seen == after else (0 if not before else 5, 7))
    if fenced.fence() == 7:
        for write in (fenced.append, fenced.replace):
            with pytest.raises(FenceRejected):
                write(6, b"late\n")
    assert (fenced.read() if fenced.path.exists() else b"") == seen
    # And the next holder continues from there and removes the leftovers
    fenced.append(8, b"next\n")
    assert fenced.path.read_bytes() == seen + b"next\n"
    assert not Path(f"{fenced.path}.fence.new").exists()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "fast"])
def test_a_death_before_any_system_call_leaves_the_old_or_the_new(
    tmp_path: Path, case: str, durable: bool
) -> None:
    for at in itertools.count(1):
        # Given a file, and a writer that dies before its at-th step
        fenced = started(tmp_path / f"{at}", case, durable)

        def work(child: Child, fenced: FencedFile = fenced, at: int = at) -> None:
            Killer(at).arm()
            CASES[case][1](fenced)
            child.say("done")

        with Child(work) as writer:
            told = writer.hear() == "done"
            ended = writer.end()
        old_or_new(fenced, case, told)
        if told:
            break
    assert ended == 0
    assert at > 6


#: An interrupt before a file is in use leaves it to the collector, which closes it.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("case", CASES)
def test_ctrl_c_at_any_moment_leaves_the_old_or_the_new_and_a_free_file(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write", in_halves(lambda: None))
    for at in itertools.count(1):
        fenced = started(tmp_path / f"{at}", case, False)
        strike = Strike(at, within=("holdfast", __name__))
        with contextlib.suppress(KeyboardInterrupt), strike:
            CASES[case][1](fenced)
        # Then nothing stays open, and the file isn't locked
        if open_paths(tmp_path):
            gc.collect()
        assert not open_paths(tmp_path), strike.where
        old_or_new(fenced, case, not strike.where)
        if not strike.where:
            break
    assert at > 50


def open_paths(folder: Path) -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(str(folder))]


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "fast"])
def test_a_full_disk_keeps_nothing_of_the_write_and_everything_before_it(
    tmp_path: Path, durable: bool
) -> None:
    # Given a file of 30,000 bytes on a disk that has room for 40,000 in each file
    fenced = FencedFile(tmp_path / "ledger", durable=durable)
    fenced.append(5, b"a" * 30_000)
    with no_file_longer(40_000):
        # When more is written than there is room for
        for write, data in ((fenced.append, b"b" * 10_001), (fenced.replace, b"c" * 40_001)):
            with pytest.raises(OSError, match=r"nothing of this write was kept.*ledger"):
                write(6, data)
        assert fenced.path.read_bytes() == b"a" * 30_000
        # Then a write that fits is still accepted, and the fence holds
        fenced.append(6, b"d" * 10_000)
        with pytest.raises(FenceRejected):
            fenced.append(5, b"")
    assert fenced.read() == b"a" * 30_000 + b"d" * 10_000
    assert sorted(os.listdir(tmp_path)) == ["ledger", "ledger.fence"]


def test_no_room_for_the_sidecar_is_an_error_and_no_write(tmp_path: Path) -> None:
    fenced = FencedFile(tmp_path / "ledger")
    for room in (0, 100, 4096, 8192 + 5):
        with no_file_longer(room), pytest.raises(OSError, match="nothing of this write was kept"):
            fenced.append(1, b"x")
    fenced.append(1, b"x")
    assert (fenced.read(), fenced.fence()) == (b"x", 1)
