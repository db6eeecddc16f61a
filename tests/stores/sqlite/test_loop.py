"""The embedded store under asyncio: requests run in order, none is lost, the loop stays free."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.model import Claim, Granted, Held, Keep, Leave, Refused, Waiting
from holdfast.core.ports import Store
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.sqlite import open_aio
from holdfast.testing import lag
from holdfast.url import find
from tests.fenced.process import Child
from tests.stores.sqlite.desk import WITHIN_S, Desk, claim
from tests.stores.sqlite.test_gate import sitting

lag.watch()

SEED = random.SystemRandom().randrange(1 << 32)


def opened(path: Path, options: str = "") -> Store:
    return open_aio(find(f"sqlite://{path}{options}")[1])


def leaving(left: Claim, ticket: int = 0, suspect: bool = False) -> Leave:
    return Leave(left.spec.name, left.id, ticket, 0.0, suspect)


def test_verbs_and_wake_ups_work_on_a_loop(path: Path) -> None:
    async def main() -> None:
        # Given two clients on one loop
        here, there = opened(path), opened(path)
        held, first, second = claim(), claim(), claim()
        answer = await here.join(held, True, WITHIN_S)
        assert isinstance(answer, Held)
        one = await there.join(first, True, WITHIN_S)
        two = await there.join(second, True, WITHIN_S)
        assert isinstance(one, Waiting)
        assert isinstance(two, Waiting)
        sleepers = asyncio.gather(there.wait(first, one, 5.0), there.wait(second, two, 0.2))
        await asyncio.sleep(0.01)
        # When the holder releases the lock
        assert await here.leave(leaving(held, answer.fence), WITHIN_S)
        # Then only the first waiter is woken
        assert await sleepers == [Granted(one.ticket), None]
        # And a wake-up that comes before its claim waits is not lost
        assert await there.leave(leaving(first, one.ticket), WITHIN_S)
        there.unlisten(first)
        assert await there.wait(second, two, 5.0) == Granted(two.ticket)
        assert [line.name for line in await here.inspect("", WITHIN_S)] == ["refund"]
        assert await there.leave(leaving(second, two.ticket), WITHIN_S)
        for store in (here, there):
            await store.close()

    asyncio.run(main())


def test_a_killed_holder_wakes_the_waiter_on_the_loop(path: Path) -> None:
    def holder(child: Child) -> None:
        desk = Desk(path)
        child.say(desk.hold(claim()))
        signal.pause()

    async def main(child: Child) -> float:
        here, wanted = opened(path), claim()
        waiting = await here.join(wanted, True, WITHIN_S)
        assert isinstance(waiting, Waiting)
        sleeper = asyncio.ensure_future(here.wait(wanted, waiting, 5.0))
        await asyncio.sleep(0.01)
        child.send(signal.SIGKILL)
        killed = boottime()
        assert await sleeper is None
        (answer,) = await here.keep([Keep(wanted, waiting.ticket, 30.0)], WITHIN_S)
        assert isinstance(answer, Held)
        late = boottime() - killed - lag.since(killed)
        await here.close()
        return late

    with Child(holder) as child:
        child.hear()
        late = asyncio.run(main(child))
    print(f"{late * 1e3:.1f} ms")
    # A killed process needs some time to die; if its death weren't noticed, this would last 5 s
    assert late < 2.0


def test_a_cancelled_request_is_carried_out_before_its_undo(path: Path) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)

    async def main() -> int:
        here = opened(path)
        struck = 0
        for _ in range(300):
            # Given a join that is cancelled at some moment between its sending and its reply
            wanted = claim()
            task = asyncio.ensure_future(here.join(wanted, True, WITHIN_S))
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            time.sleep(dice.random() * 0.000_2)
            struck += task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            # When its withdrawal is sent, and no reply is awaited
            undo = here.leave(leaving(wanted, suspect=True), WITHIN_S)
            undo.send(None)
            undo.close()
        # Then no claim is left
        lines = await here.inspect("", WITHIN_S)
        assert lines == []
        await here.close()
        return struck

    struck = asyncio.run(main())
    print(f"{struck} of 300 cancelled")
    assert struck > 100


def test_requests_that_queue_up_are_carried_out_in_the_order_of_asking(path: Path) -> None:
    async def main() -> None:
        here, wanted = opened(path), claim()
        assert await here.join(claim("opens"), True, WITHIN_S)
        gate = os.open(path.with_name("locks.db.d") / "gate", os.O_RDWR)
        # Given a blocked worker, and behind it a join and the leave that withdraws it
        fcntl.flock(gate, fcntl.LOCK_EX)
        busy = asyncio.ensure_future(here.join(claim("busy"), True, WITHIN_S))
        await asyncio.sleep(0.05)
        joining = asyncio.ensure_future(here.join(wanted, True, WITHIN_S))
        await asyncio.sleep(0)
        left = asyncio.ensure_future(here.leave(leaving(wanted), WITHIN_S))
        await asyncio.sleep(0)
        # When the worker can continue
        os.close(gate)
        # Then no claim of the two is left
        assert isinstance(await busy, Held)
        assert isinstance(await joining, Held)
        assert await left
        assert await here.inspect(wanted.spec.name, WITHIN_S, True) == []
        await here.close()

    asyncio.run(main())


def test_what_was_asked_is_done_though_the_loop_has_ended(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a held claim, and a loop that ends when the release has only been sent
    async def main() -> None:
        here, held = opened(path), claim()
        answer = await here.join(held, True, WITHIN_S)
        assert isinstance(answer, Held)
        undo = here.leave(leaving(held, answer.fence), WITHIN_S)
        undo.send(None)
        undo.close()
        keep.append(here)

    keep: list[Store] = []
    asyncio.run(main())
    # Then the claim is released, and nothing complains about the closed loop
    end = time.monotonic() + 5
    while desk().lines():
        assert time.monotonic() < end


def test_what_was_asked_is_done_though_the_interpreter_ends(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a program that holds, detaches, and ends when its release has only been sent
    source = (
        "import asyncio, sys\n"
        "from tests.stores.sqlite.test_loop import *\n"
        "async def main(path):\n"
        "    here, held = opened(path), claim(ttl=3600.0)\n"
        "    answer = await here.join(held, True, 9)\n"
        "    await here.keep([Keep(held, answer.fence, 3600.0, detach=True)], 9)\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    undo = here.leave(leaving(held, answer.fence), 9)\n"
        "    undo.send(None)\n"
        "    undo.close()\n"
        "asyncio.run(main(sys.argv[1]))\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", source, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    with open(path.with_name("locks.db.d") / "gate") as gate:
        # When the file mutex is locked at that moment, for longer than the rest of the exit takes
        fcntl.flock(gate, fcntl.LOCK_EX)
        threading.Timer(0.5, fcntl.flock, (gate, fcntl.LOCK_UN)).start()
        out, err = program.communicate("go\n", timeout=30)
    assert (program.returncode, out, err) == (0, "", "")
    # Then the claim is released
    assert desk().lines() == []


def test_a_second_loop_is_refused(path: Path) -> None:
    # Given a client that has been used in one loop
    store = opened(path)

    async def use() -> object:
        return await store.join(claim(), False, WITHIN_S)

    asyncio.run(use())
    # When it is used in another loop, then the error names the cause
    with pytest.raises(ConfigError, match="event loop"):
        asyncio.run(use())


def test_a_locked_file_mutex_blocks_the_requests_but_not_the_loop(path: Path) -> None:
    async def main() -> None:
        here = opened(path)
        assert isinstance(await here.join(first := claim(), True, WITHIN_S), Held)
        assert await here.leave(leaving(first), WITHIN_S)
        with sitting(path) as pid:
            # Given several requests, while a stopped process holds the file mutex
            longest = 0.0
            begun = boottime()
            requests = [
                asyncio.ensure_future(here.join(claim(), True, within))
                for within in (1.0, 0.8, 0.9)
            ]
            while not all(request.done() for request in requests):
                before = time.monotonic()
                await asyncio.sleep(0.001)
                longest = max(longest, time.monotonic() - before)
            # Then each ends in its time, and the loop was never blocked
            assert boottime() - begun < 1.25 + lag.since(begun)
            assert longest < 0.3 + lag.since(begun)
            for request in requests:
                assert isinstance(request.exception(), StoreUnavailable)
            os.kill(pid, signal.SIGCONT)
        lines = await here.inspect("", WITHIN_S)
        for record in [c for line in lines for c in line.claims]:
            await here.break_("refund", record.fence, WITHIN_S)
        await here.close()

    asyncio.run(main())


def test_the_loop_is_not_held_up_by_eight_processes_on_one_name(path: Path) -> None:
    # Given eight processes that repeatedly acquire one name
    def busy(child: Child) -> None:
        here = Desk(path)
        child.say("ready")
        while True:
            fence = here.hold(wanted := claim())
            assert here.leave(wanted, fence)

    async def main() -> tuple[list[float], int]:
        here, late, held = opened(path), [], 0

        async def tick() -> None:
            while True:
                before = time.perf_counter()
                await asyncio.sleep(0.001)
                late.append(time.perf_counter() - before - 0.001)

        ticker = asyncio.ensure_future(tick())
        end = time.monotonic() + 1.5
        while time.monotonic() < end or held <= 10:
            held += await _hold_once(here)
        ticker.cancel()
        await here.close()
        return late, held

    crew = [Child(busy) for _ in range(8)]
    try:
        for child in crew:
            child.__enter__()
            child.hear()
        # When a loop acquires it too
        late, held = asyncio.run(main())
    finally:
        for child in crew:
            child.__exit__()
    # Then the loop continues to tick
    late.sort()
    worst = late[int(len(late) * 0.999)]
    print(f"{held} holds; {len(late)} ticks, p99.9 {worst * 1e3:.1f} ms late")
    assert held > 10
    # Nine busy processes share the cores, so the scheduler decides the longest delays.
    assert late[len(late) // 2] < 0.02


async def _hold_once(here: Store) -> int:
    wanted = claim()
    answer: Any = await here.join(wanted, True, WITHIN_S)
    while isinstance(answer, Waiting):
        push = await here.wait(wanted, answer, answer.retry_in)
        if push is not None:
            answer = Held(push.fence, 3.0)
            break
        (answer,) = await here.keep([Keep(wanted, answer.ticket, 30.0)], WITHIN_S)
    here.unlisten(wanted)
    assert isinstance(answer, Held)
    assert await here.leave(leaving(wanted, answer.fence), WITHIN_S)
    return 1


def test_without_sockets_the_loop_looks_for_itself(path: Path) -> None:
    async def main() -> None:
        # Given a waiter that has no socket
        here, there = opened(path), opened(path, "?wake=poll")
        answer = await here.join(held := claim(), True, WITHIN_S)
        assert isinstance(answer, Held)
        waiting = await there.join(wanted := claim(), True, WITHIN_S)
        assert isinstance(waiting, Waiting)
        assert await there.wait(wanted, waiting, 0.02) is None
        # When the holder releases the lock, then the waiter's own poll finds the grant
        assert await here.leave(leaving(held, answer.fence), WITHIN_S)
        assert await there.wait(wanted, waiting, 2.0) == Granted(waiting.ticket)
        for store in (here, there):
            await store.close()

    asyncio.run(main())


def test_a_closed_client_leaves_no_claim_no_thread_and_no_descriptor(path: Path) -> None:
    async def main() -> None:
        here, other = opened(path), opened(path)
        # Given a client that holds, and a client that waits
        assert isinstance(await here.join(claim(), True, WITHIN_S), Held)
        waiting = await other.join(wanted := claim(), True, WITHIN_S)
        assert isinstance(waiting, Waiting)
        sleeper = asyncio.ensure_future(other.wait(wanted, waiting, 5.0))
        await asyncio.sleep(0.01)
        # When the holder is closed, then the waiter holds immediately
        await here.close()
        push = await asyncio.wait_for(sleeper, 2.5)
        if push is None:
            (answer,) = await other.keep([Keep(wanted, waiting.ticket, 30.0)], WITHIN_S)
            assert isinstance(answer, Held)
        await other.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await here.join(claim(), False, WITHIN_S)

    others = set(threading.enumerate())

    def thread_count() -> int:
        return len(set(threading.enumerate()) - others)

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    end = time.monotonic() + 5
    while thread_count() or len(os.listdir("/proc/self/fd")) > before:
        assert time.monotonic() < end, (before, os.listdir("/proc/self/fd"), thread_count())


def test_a_forked_child_makes_a_separate_worker(path: Path) -> None:
    # Given a client that holds on its loop
    store = opened(path)
    held = claim()

    async def hold() -> int:
        answer = await store.join(held, True, WITHIN_S)
        assert isinstance(answer, Held)
        return answer.fence

    fence = asyncio.run(hold())

    def works(child: Child) -> None:
        async def use() -> None:
            store.forked()
            assert isinstance(await store.join(claim(), False, WITHIN_S), Refused)
            answer = await store.join(claim("mine"), False, WITHIN_S)
            assert isinstance(answer, Held)
            await store.close()

        asyncio.run(use())

    # When a forked child uses it on a separate loop
    with Child(works) as child:
        # Then the child succeeds, and the parent's claim is still there
        assert child.end() == 0
    with Desk(path) as desk:
        assert desk.leave(held, fence)
        assert desk.free()
