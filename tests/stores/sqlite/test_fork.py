"""A forked child takes nothing from its parent, and keeps nothing of a dead parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast import Client, Loss
from holdfast.core.model import Held, Refused
from holdfast.testing.surroundings import surroundings
from tests.fenced.process import Child
from tests.servers.process import until
from tests.stores.sqlite.desk import Desk, claim
from tests.stores.sqlite.test_gate import gate_is_free


def test_a_living_child_does_not_keep_its_dead_parents_file_mutex(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a process that forked, and was killed while it held the file mutex
    here = desk()
    assert here.free()

    def sits(child: Child) -> None:
        there = Desk(path)
        assert there.free()
        if not os.fork():
            child.say(os.getpid())
            signal.pause()
        there.engine._inside(5.0, lambda files, now: signal.pause())

    with Child(sits) as parent:
        orphan = int(parent.hear())
        until(lambda: not gate_is_free(path), "the parent holds the file mutex", 5.0)
        parent.send(signal.SIGKILL)
        parent.end()
    # Then the file mutex is free, although its child lives
    try:
        assert here.free()
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_child_has_none_of_its_parents_deliveries_and_takes_nothing_from_it(
    client: Client,
) -> None:
    queue = client.queue("q", ttl=600)
    queue.put_many(["ours", "behind"], group="g")
    queue.put_many(["theirs", "more"], group="h")
    job = queue.take(timeout=0)
    assert job is not None

    def works(child: Child) -> None:
        # When a forked child uses the same objects
        assert job.lost is Loss.FORKED
        assert not job.ack()
        mine = queue.take(timeout=0)
        assert mine is not None
        assert mine.group != job.group
        assert mine.ack()
        queue.put("of the child")
        client.close()

    for _ in range(2):
        with Child(works) as child:
            assert child.end() == 0
    # Then the parent has lost nothing
    job.check()
    assert job.ack()
    left = []
    while (one := queue.take(timeout=0)) is not None:
        left.append(one.payload)
        assert one.ack()
    assert "ours" not in left
    assert "behind" in left


#: A program that forks a child; the child runs the interpreter's full exit procedure.
EXITS = """
import os, sys
from tests.stores.sqlite.desk import Desk, claim
here = Desk(sys.argv[1])
assert here.free('another')
here.hold(claim('mine'))
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
if sys.argv[2] == 'use':
    assert here.free('third')
"""


def test_a_child_that_ends_normally_disturbs_no_client(
    path: Path, desk: Callable[..., Desk]
) -> None:
    here = desk()
    fence = here.hold(held := claim())
    for word in ("use", "leave"):
        # When a child ends, after it used the store or without using it
        done = subprocess.run(
            [sys.executable, "-c", EXITS, str(path), word],
            env=surroundings(PYTHONPATH=os.pathsep.join(p for p in sys.path if p)),
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")
        # Then all files are unchanged, and old and new clients agree on the holder
        assert isinstance(here.keep(held, fence), Held)
        assert isinstance(desk().join(claim(), wait=False), Refused)
    assert here.leave(held, fence)
    assert {line.name for line in here.lines()} <= {"mine"}
