"""No commit and no checkpoint outside the file mutex, whatever clients do and however they end.

SQLite's WAL-reset bug loses commits if a checkpoint and a commit overlap. The file mutex keeps the
two apart, even with an SQLite version that has the bug. The test process has no open database. It
takes the file mutex and asks the kernel whether any process holds the locks that SQLite takes for a
commit and for a checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import time
from collections import Counter
from pathlib import Path

from holdfast import Client, HoldfastError
from holdfast.testing.promise import promised
from tests.fenced.process import Child
from tests.torture.scale import times

FILES = ("", "-queues", "-values")
#: The kernel locks of a writer (WAL_WRITE_LOCK) and of a checkpoint (WAL_CKPT_LOCK).
LOCKS = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 120, 2, 0)
PATIENCE_S = 60.0


def work(path: Path) -> None:
    """Run clients that come and go, and use all three databases, so that SQLite has work to do."""
    for turn in range(1 << 30):
        with contextlib.suppress(HoldfastError), Client(f"sqlite://{path}", ttl=5) as client:
            for number in range(20):
                client.lock("x" * 500, timeout=0).acquire()  # too long to do without SQLite
                queue = client.queue("q")
                queue.put("a job", group=f"{number % 3}")
                job = queue.take(timeout=0)
                queue.stats()
                if job is not None and turn % 2:
                    job.ack()
                guard = client.guard("g", ttl=5, timeout=1)
                guard.get(lambda: "x" * 3000, key=f"{number}")
                guard.invalidate(f"{number}")
                client.inspect()


def looked(path: str) -> bool | None:
    """Take the file mutex; return True if a process commits or checkpoints then, None without a
    file."""
    with contextlib.ExitStack() as stack:
        opened = []
        for name in (path + ".d/gate", path + "-shm"):
            try:
                opened.append(os.open(name, os.O_RDWR))
            except FileNotFoundError:
                return None
            stack.callback(os.close, opened[-1])
        gate, shared = opened
        fcntl.flock(gate, fcntl.LOCK_EX)
        if not os.fstat(gate).st_nlink or not os.fstat(shared).st_nlink:
            return None
        (kind, *_) = struct.unpack("hhqqi4x", fcntl.fcntl(shared, fcntl.F_GETLK, LOCKS))
        return bool(kind != fcntl.F_UNLCK)


def test_no_commit_or_checkpoint_happens_outside_the_file_mutex(path: Path) -> None:
    # Given clients of all three databases, of which some are killed during their work
    samples: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    end = time.monotonic() + PATIENCE_S
    wanted = times(20_000, 60)
    with contextlib.ExitStack() as crew:
        workers = [crew.enter_context(Child(lambda _: work(path))) for _ in range(3)]
        while min(samples[name] for name in FILES) < wanted:
            assert time.monotonic() < end + wanted / 10, f"too few samples: {samples}"
            # When the test holds the file mutex
            for name in FILES:
                busy = looked(f"{path}{name}")
                if busy is not None:
                    samples[name] += 1
                    outside[name] += busy
            if samples[""] % 50 == 25:
                workers.pop(0).send(signal.SIGKILL)
                workers.append(crew.enter_context(Child(lambda _: work(path))))
            time.sleep(0.001)
    print(f"samples {dict(samples)}, outside {dict(outside)}")
    # Then no client holds a lock of a commit or a checkpoint
    with promised("no commit and no checkpoint without the file mutex"):
        assert not outside.total(), f"{dict(outside)} of {dict(samples)} samples"
