"""A forked child shares no claims with its parent, takes none, and keeps none of them alive."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.core.model import Held, Refused
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim
from tests.stores.sqlite.test_gate import gate_is_free


def test_a_forked_child_uses_the_store_as_a_separate_process(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a client that holds one name and waits for another
    here, other = desk(), desk()
    fence = here.hold(held := claim())
    theirs = other.hold(elsewhere := claim("lined"))
    here.join(behind := claim("lined"))

    def works(child: Child) -> None:
        # When the child of a fork uses the same object
        assert isinstance(here.join(claim(), wait=False), Refused)
        assert not here.leave(claim(), fence)
        mine = here.hold(own := claim("of the child"))
        assert here.leave(own, mine)
        child.say(here.engine._session.name)
        here.close()

    for _ in range(10):
        session = here.engine._session.name
        with Child(works) as child:
            # Then it has a separate session
            assert child.hear() not in ("", session)
            assert child.end() == 0
        # And the parent has lost nothing
        assert isinstance(here.keep(held, fence), Held)
        assert here.engine._session.intact()
    assert here.leave(behind)
    assert other.leave(elsewhere, theirs)
    assert here.leave(held, fence)


def test_a_living_child_does_not_keep_its_dead_parents_claims_alive(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a holder that has forked, and is then killed
    def holder(child: Child) -> None:
        there = Desk(path)
        there.hold(claim())
        there.hold(claim("lined"))
        there.join(claim("lined"))
        if not os.fork():
            child.say(os.getpid())
        signal.pause()

    here = desk()
    with Child(holder) as parent:
        orphan = int(parent.hear())
        assert isinstance(here.join(claim(), wait=False), Refused)
        parent.send(signal.SIGKILL)
        parent.end()
    # Then the names that it held are free, although its child lives
    try:
        assert here.free()
        assert here.free("lined")
    finally:
        os.kill(orphan, signal.SIGKILL)


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
        end = time.monotonic() + 5
        while gate_is_free(path):
            assert time.monotonic() < end
        parent.send(signal.SIGKILL)
        parent.end()
    # Then the file mutex is free, although its child lives
    try:
        assert here.free()
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_forks_among_busy_threads_harm_neither_side(path: Path, desk: Callable[..., Desk]) -> None:
    # Given threads that lock and unlock without a pause
    here = desk()
    stop = threading.Event()
    counts = [0, 0, 0]

    def busy(number: int) -> None:
        while not stop.is_set():
            name = f"name-{number % 2}"
            fence = here.hold(wanted := claim(name))
            assert here.leave(wanted, fence)
            counts[number] += 1

    threads = [threading.Thread(target=busy, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()

    def works(child: Child) -> None:
        for number in range(3):
            fence = here.hold(wanted := claim(f"name-{number}"))
            assert here.leave(wanted, fence)
        here.close()

    try:
        for _ in range(25):
            # When the process forks while they run, and the child does the same
            with Child(works) as child:
                # Then the child ends normally, and the parent's threads continue
                assert child.end() == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert min(counts) > 0
    assert here.lines() == []
    assert gate_is_free(path)


def test_a_child_that_ends_normally_disturbs_no_client(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a client in use, and children that run the interpreter's full exit procedure
    here = desk()
    fence = here.hold(held := claim())
    source = (
        "import os, sys, secrets\n"
        "from tests.stores.sqlite.desk import Desk, claim\n"
        f"here = Desk({str(path)!r})\n"
        "assert here.free('another')\n"
        "here.hold(claim('mine'))\n"
        "if os.fork():\n"
        "    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "if sys.argv[1] == 'use':\n"
        "    assert here.free('third')\n"
    )
    import subprocess
    import sys

    for word in ("use", "leave"):
        # When a child ends, after it used the store or without using it
        done = subprocess.run(
            [sys.executable, "-c", source, word],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        # Then all files are unchanged, and old and new clients agree on the holder
        assert isinstance(here.keep(held, fence), Held)
        assert isinstance(desk().join(claim(), wait=False), Refused)
    assert here.leave(held, fence)
    assert {line.name for line in here.lines()} <= {"mine"}
