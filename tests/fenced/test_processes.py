"""Several processes and one file: later holders win, stopped ones lose, dead ones block nothing."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import FenceRejected, NotAcquired
from holdfast.fenced import FencedFile
from holdfast.fenced.blocking import files
from tests.fenced.process import Child

SEED = random.SystemRandom().randrange(1 << 32)


def test_fences_in_the_file_never_fall_though_writers_race(tmp_path: Path) -> None:
    # Given two writers whose fences interleave at random, as after lost leases
    print(f"seed {SEED}")
    fenced = FencedFile(tmp_path / "ledger", durable=False)

    pipes = os.pipe(), os.pipe()

    def race(who: int) -> Any:
        def work(child: Child) -> None:
            dice = random.Random(SEED + who)
            fence = 1
            for count in range(400):
                if count % 4 == 0:  # one that gets no core for a while isn't left behind
                    os.write(pipes[who - 1][1], b".")
                    os.read(pipes[2 - who][0], 1)
                fence += dice.choice((0, 0, 0, 1, 5))
                try:
                    fenced.append(fence, f"{fence} {who} {count}\n")
                    child.say(f"{fence} {who} {count}")
                except FenceRejected:
                    fence = fenced.fence()
                time.sleep(dice.random() * 0.000_3)

        return work

    # When both write
    with Child(race(1)) as one, Child(race(2)) as two:
        told = one.rest() + two.rest()
        assert (one.end(), two.end()) == (0, 0)
    for end in itertools.chain(*pipes):
        os.close(end)
    # Then the file has exactly the acknowledged lines, in the order of the fences
    lines = fenced.read().decode().splitlines()
    assert sorted(lines) == sorted(told)
    fences = [int(line.split()[0]) for line in lines]
    assert fences == sorted(fences)
    changes = sum(a.split()[1] != b.split()[1] for a, b in itertools.pairwise(lines))
    print(f"{len(lines)} lines, {changes} changes of hands")
    assert changes > 50
    assert fenced.fence() == fences[-1]


def test_a_writer_that_slept_through_its_lease_is_refused(tmp_path: Path) -> None:
    # Given a holder with fence 5 that is stopped just before it writes
    fenced = FencedFile(tmp_path / "ledger", durable=False)
    fenced.append(5, "first\n")

    def sleepy(child: Child) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        for write in (fenced.append, fenced.replace):
            try:
                write(5, "late\n")
            except FenceRejected:
                child.say("refused")

    with Child(sleepy) as old:
        old.stopped()
        # When the next holder writes, and the old one then continues
        fenced.append(6, "second\n")
        old.send(signal.SIGCONT)
        # Then both writes of the old holder are refused
        assert old.rest() == ["refused", "refused"]
        assert old.end() == 0
    assert fenced.read() == b"first\nsecond\n"


def in_the_middle(act: Callable[[], object]) -> None:
    """Let the writes of this process act when half of the data is written."""
    whole = files.write

    def half(file: Any, payload: bytes) -> None:
        whole(file, payload[:3])
        act()
        whole(file, payload[3:])

    files.write = half


def test_a_writer_stopped_in_the_middle_is_waited_for_within_bounds_and_named(
    tmp_path: Path,
) -> None:
    # Given a writer that is stopped with half of its data written
    fenced = FencedFile(tmp_path / "ledger", durable=False, timeout=0.1)
    fenced.append(5, "first\n")

    def stuck(child: Child) -> None:
        def stop() -> None:
            os.kill(os.getpid(), signal.SIGSTOP)

        in_the_middle(stop)
        fenced.append(5, "second\n")
        stop()
        try:
            fenced.append(5, "late\n")
        except FenceRejected:
            child.say("refused")

    with Child(stuck) as old:
        old.stopped()
        # When other processes call, the error names the process that is in the way
        for call in (fenced.read, lambda: fenced.append(6, "third\n")):
            with pytest.raises(NotAcquired, match=f"process {old.pid} is in the middle"):
                call()
        # When it continues, its write is whole; after the later holder's write, it is refused
        old.send(signal.SIGCONT)
        old.stopped()
        fenced.append(6, "third\n")
        old.send(signal.SIGCONT)
        assert old.rest() == ["refused"]
    assert fenced.read() == b"first\nsecond\nthird\n"


def test_a_child_forked_in_mid_write_doesn_t_keep_the_file_of_a_killed_parent(
    tmp_path: Path,
) -> None:
    # Given a process that forks in the middle of a write and is killed; its child lives on
    fenced = FencedFile(tmp_path / "ledger", durable=False, timeout=2.0)
    fenced.append(5, "first\n")

    def forking(child: Child) -> None:
        def fork() -> None:
            grandchild = os.fork()
            if grandchild == 0:
                signal.pause()
            child.say(grandchild)
            os.kill(os.getpid(), signal.SIGKILL)

        in_the_middle(fork)
        fenced.append(5, "second\n")

    with Child(forking) as parent:
        orphan = int(parent.hear())
        assert parent.end() == -signal.SIGKILL
        try:
            # When the next process reads, it need not wait, and the torn end is gone
            os.kill(orphan, 0)
            assert fenced.read() == b"first\n"
            fenced.append(6, "second\n")
            assert fenced.read() == b"first\nsecond\n"
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_readers_see_whole_replacements_only(tmp_path: Path) -> None:
    # Given a writer that replaces the contents again and again, with a new inode each time
    fenced = FencedFile(tmp_path / "page", durable=False)
    fenced.replace(1, b"0" * 50_000)

    def work(_: Child) -> None:
        for turn in itertools.count():
            fenced.replace(1, b"%d" % (turn % 10) * 50_000)

    # When this process reads, through the fenced file and directly, until it has seen four contents
    seen: dict[str, set[bytes]] = {"through": set(), "past": set()}
    with Child(work):
        end = time.monotonic() + 20
        while min(map(len, seen.values())) < 4:
            assert time.monotonic() < end, seen
            for way, look in (("through", fenced.read), ("past", fenced.path.read_bytes)):
                contents = look()
                # Then it never sees a mixture
                assert contents == contents[:1] * 50_000
                seen[way].add(contents[:1])
