"""The file that kill -9, a full disk or Ctrl-C in the middle of a write leaves behind."""

from __future__ import annotations

import gc
import itertools
import os
import random
import resource
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import FenceRejected
from holdfast.fenced import FencedFile
from holdfast.fenced.blocking import files
from tests.fenced.process import Child
from tests.torture.scale import times

SEED = random.SystemRandom().randrange(1 << 32)
#: Minimum number of kills; more follow until one has hit the middle of a write.
KILLS = times(200, 60)


def record(fence: int, count: int, size: int) -> bytes:
    """One line with a checksum, so that a reader can see whether it is whole."""
    body = b"%d %d %s" % (fence, count, b"x" * size)
    return b"%s %d\n" % (body, zlib.crc32(body))


def records(contents: bytes) -> list[tuple[int, int]]:
    """(fence, count) of each line; fails if one isn't whole."""
    found = []
    assert not contents or contents.endswith(b"\n"), f"torn: ...{contents[-60:]!r}"
    for line in contents.splitlines():
        body, _, check = line.rpartition(b" ")
        assert zlib.crc32(body) == int(check), f"not whole: {line[:40]!r}...{line[-40:]!r}"
        fence, count, _ = body.split(b" ")
        found.append((int(fence), int(count)))
    return found


def test_kill_9_in_the_middle_of_appends_loses_and_tears_nothing(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    torn = told = 0
    for turn in range(4 * KILLS):
        if turn >= KILLS and torn:
            break
        # Given a process that appends big records with rising fences and reports each append
        guard = FencedFile(tmp_path / f"ledger{turn}", durable=turn % 5 == 0)
        sizes = [dice.randrange(200_000) for _ in range(20)]

        def write(child: Child, guard: FencedFile = guard, sizes: list[int] = sizes) -> None:
            for count in itertools.count():
                fence = count // 3 + 1
                guard.append(fence, record(fence, count, sizes[count % 20]))
                child.say(count)

        # When it is killed at some moment
        with Child(write) as writer:
            writer.hear()
            time.sleep(dice.random() * 0.003)
            writer.send(signal.SIGKILL)
            done = [0, *map(int, writer.rest())]
        torn += guard.path.stat().st_size != len(guard.read())
        # Then each reported record is there, and at most one more, whole, in order, below the fence
        last = check_whole(guard, done)
        # And the next holder continues after these records, and an older holder is refused
        told += len(done)
        with pytest.raises(FenceRejected):
            guard.append(last, b"late")
        guard.append(last + 2, record(last + 2, 0, 10))
        assert records(guard.path.read_bytes())[-1] == (last + 2, 0)
        guard.path.unlink()
    print(f"{turn} kills, {told} appends told, {torn} torn ends found and cut")
    assert torn > 0, "no kill hit the middle of a write: this test showed nothing"


def check_whole(guard: FencedFile, done: list[int]) -> int:
    """Check that each reported record is there and whole; return a fence below the greatest."""
    found = records(guard.read())
    assert len(done) <= len(found) <= len(done) + 1
    assert found == [(count // 3 + 1, count) for count in range(len(found))]
    assert guard.fence() >= found[-1][0]
    guard.append(guard.fence() + 1, b"")
    return guard.fence() - 1


# -- every crash point ---------------------------------------------------------------------


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
        whole = files.write

        def halves(file: Any, payload: bytes) -> None:
            self.step()
            whole(file, payload[: len(payload) // 2])
            self.step()
            whole(file, payload[len(payload) // 2 :])
            self.step()

        files.write = halves

    def _before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **more: Any) -> Any:
            self.step()
            return call(*args, **more)

        return stepped


CASES = {
    "first append": (b"", lambda guard: guard.append(7, b"second\n"), b"second\n"),
    "append": (b"first\n", lambda guard: guard.append(7, b"second\n"), b"first\nsecond\n"),
    "replace": (b"first\n", lambda guard: guard.replace(7, b"second\n"), b"second\n"),
    "first replace": (b"", lambda guard: guard.replace(7, b"second\n"), b"second\n"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "fast"])
def test_a_death_before_any_system_call_leaves_the_old_or_the_new(
    tmp_path: Path, case: str, durable: bool
) -> None:
    before, write, after = CASES[case]
    points = 0
    for at in itertools.count(1):
        # Given a file, and a writer that dies before its at-th step
        guard = FencedFile(tmp_path / f"{at}", durable=durable)
        if before:
            guard.append(5, before)

        def work(child: Child, guard: FencedFile = guard, at: int = at) -> None:
            Killer(at).arm()
            write(guard)
            child.say("done")

        with Child(work) as writer:
            told = writer.hear() == "done"
            ended = writer.end()
        # Then the file is as before or as after; if it shows the new data, older fences are refused
        assert_old_or_new(guard, before, after, told)
        # And the next holder continues from there and removes the leftovers
        seen = guard.read() if guard.path.exists() else b""
        guard.append(8, b"next\n")
        assert guard.path.read_bytes() == seen + b"next\n"
        assert not Path(f"{guard.path}.fence.new").exists()
        if told:
            assert ended == 0
            break
        points += 1
    print(f"{case}: died at {points} points")
    assert points >= 6


def assert_old_or_new(guard: FencedFile, before: bytes, after: bytes, told: bool) -> None:
    seen = guard.read() if guard.path.exists() else b""
    assert seen in (before, after)
    assert seen == after or not told
    if seen == after:
        assert guard.fence() == 7
    assert guard.fence() in (0 if not before else 5, 7)
    if guard.fence() == 7:
        for write in (guard.append, guard.replace):
            with pytest.raises(FenceRejected):
                write(6, b"late\n")
    now = guard.read() if guard.path.exists() else b""
    assert now == seen


# -- a full disk ---------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "fast"])
def test_a_full_disk_keeps_nothing_of_the_write_and_everything_before_it(
    tmp_path: Path, durable: bool
) -> None:
    # Given a file of 30,000 bytes on a disk that has room for 40,000 in each file
    guard = FencedFile(tmp_path / "ledger", durable=durable)
    guard.append(5, b"a" * 30_000)

    def work(child: Child) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        # When more is written than there is room for
        for write, data in ((guard.append, b"b" * 10_001), (guard.replace, b"c" * 40_001)):
            try:
                write(6, data)
            except OSError as wrong:
                child.say(wrong)
        child.say(guard.path.read_bytes() == b"a" * 30_000)
        # Then a write that fits is still accepted, and the fence holds
        guard.append(6, b"d" * 10_000)
        try:
            guard.append(5, b"")
        except FenceRejected:
            child.say("refused")

    with Child(work) as writer:
        for _ in range(2):
            error = writer.hear()
            assert str(guard.path) in error
            assert "nothing of this write was kept" in error
        assert writer.hear() == "True"
        assert writer.hear() == "refused"
        assert writer.end() == 0
    assert guard.read() == b"a" * 30_000 + b"d" * 10_000
    assert sorted(os.listdir(tmp_path)) == ["ledger", "ledger.fence"]


def test_no_room_for_the_sidecar_is_an_error_and_no_write(tmp_path: Path) -> None:
    guard = FencedFile(tmp_path / "ledger")

    def work(child: Child) -> None:
        for room in (0, 100, 4096, 8192 + 5):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            try:
                guard.append(1, b"x")
            except OSError as wrong:
                child.say(wrong)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        guard.append(1, b"x")

    with Child(work) as writer:
        assert all("nothing of this write was kept" in line for line in writer.rest())
        assert writer.end() == 0
    assert (guard.read(), guard.fence()) == (b"x", 1)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_moment_leaves_whole_records_and_a_free_file(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    guard = FencedFile(tmp_path / "ledger", durable=False)
    guard.append(1, record(1, 0, 10))
    told = interrupts = 0
    usual = signal.getsignal(signal.SIGALRM)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    try:
        for count in range(1, 301):
            # When an interrupt comes at some moment of a write
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.000_01, 0.000_4))
                if count % 7 == 0:
                    guard.replace(1, guard.read() + record(1, count, 5000))
                else:
                    guard.append(1, record(1, count, dice.randrange(20_000)))
                signal.setitimer(signal.ITIMER_REAL, 0)
                told += 1
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, usual)
    gc.collect()
    # Then the file isn't locked, nothing is open, and every record in it is whole
    found = records(FencedFile(guard.path, timeout=1).read())
    assert told < len(found) <= told + interrupts + 1
    assert not [p for p in open_paths() if str(tmp_path) in p]
    print(f"{told} told, {interrupts} interrupted, {len(found)} found")
    assert interrupts > 20


def open_paths() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return found
