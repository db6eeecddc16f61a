"""Locks between processes: real processes, real SIGKILL, real forks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from ....core.model import Loss
from ....errors import LockLost, NotHeld, StoreUnavailable
from ....runtime.blocking import run_sync
from ...faces import now
from ...worker import Worker
from ..arena import KEPT_S, SINGLE, Arena, at_once, raises
from ..registry import case


async def in_child(at: Arena, text: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run the coroutine in the child of a fork; return its result, which must fit into JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run = asyncio.run if at.face.name == "aio" else run_sync
            os.write(writer, json.dumps(run(text())).encode())
            status = 0
        except BaseException:
            os.write(writer, json.dumps(traceback.format_exc()).encode())
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader) as pipe:
        said = await at.face.outside(pipe.read)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child failed: {said and json.loads(said)}"
    return json.loads(said)


async def warm(at: Arena, worker: Worker) -> None:
    """Make the worker connect: on a busy machine a non-blocking acquire has no time to connect."""
    name = at.fresh("warm")
    assert await worker.acquire(name, timeout=20) is not None
    await worker.call("release", name)


@case("lock", promise=True)
async def other_processes_are_excluded_as_the_capabilities_say(at: Arena) -> None:
    worker = at.worker()
    await warm(at, worker)
    async with at.lock():
        fence = await worker.call("attempt", at.name)
        assert (fence is None) is at.can.across_processes
    if fence is not None:
        await worker.call("release", at.name)


@case("lock", needs=["across_processes"], promise=True)
async def no_update_is_lost_between_processes(at: Arena) -> None:
    file = at.folder() / "number"
    file.write_text("0")
    workers = [at.worker() for _ in range(3)]
    for worker in workers:
        worker.send("count", at.name, str(file), 25)
    fences = [await worker.answer() for worker in workers]
    assert file.read_text() == "75"
    at.in_order(*sorted(fence for own in fences for fence in own))
    for own in fences:
        at.in_order(*own)


@case("lock", needs=["across_processes"])
async def a_waiter_in_another_process_is_served_at_the_release(at: Arena) -> None:
    worker = at.worker()
    await warm(at, worker)
    hold = await at.lock().acquire()
    worker.send("acquire", at.name, None, 30.0)
    await at.line(waiters=1)
    released = now()
    await hold.release()
    fence = await worker.answer()
    assert now() - released < at.served(released) + 0.5  # the worker's own delay isn't measured
    at.in_order(at.number(hold), fence)
    assert await worker.call("release", at.name) is True


@case("lock", needs=["across_processes", "own_expiry"])
async def what_a_killed_process_held_is_free_after_its_ttl_at_the_latest(at: Arena) -> None:
    worker = at.worker()
    fence = await worker.acquire(at.name, ttl=KEPT_S)
    assert fence is not None
    (holder,) = await at.holders()
    assert (f":{worker.pid}:worker" in holder.owner) is at.can.owners
    worker.kill()
    begun = now()
    async with at.lock() as hold:
        assert now() - begun < KEPT_S + at.served(begun)
        at.in_order(fence, at.number(hold))


@case("lock", needs=["across_processes", "fair", "own_expiry"])
async def a_waiter_that_is_killed_costs_those_behind_it_little(at: Arena) -> None:
    worker = at.worker()
    await warm(at, worker)
    async with at.lock():
        worker.send("acquire", at.name, None, 30.0)
        await at.line(waiters=1)
        behind = at.start(at.rival().acquire)
        await at.line(waiters=2)
        worker.kill()
    begun = now()
    hold = await behind.result()
    assert now() - begun < 3.0 + 2 * at_once(begun)  # 3 s is the TTL of the waiter that was killed
    await hold.release()


@case("lock", needs=["across_processes", "own_expiry"])
async def a_stopped_process_finds_its_hold_lost_when_it_wakes(at: Arena) -> None:
    worker = at.worker()
    while True:
        fence = await worker.acquire(at.name, ttl=0.5)
        assert fence is not None
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            await at.locks._ctx.store.inspect(at.fresh("probe"), 0.3, exact=True)
            break
        except StoreUnavailable:  # the worker was stopped at a point where it blocks other clients
            os.kill(worker.pid, signal.SIGCONT)
            await worker.call("release", at.name)
    try:
        async with at.lock(timeout=5) as hold:
            at.in_order(fence, at.number(hold))
            os.kill(worker.pid, signal.SIGCONT)
            assert await worker.call("state", at.name) == "lost"
            # (A worker that was stopped during a renewal has received no reply.)
            reason = await worker.call("wait_lost", at.name, 1.0)
            assert reason in (Loss.EXPIRED, Loss.UNREACHABLE)
            assert await worker.call("release", at.name) is False
            hold.check()
    finally:
        os.kill(worker.pid, signal.SIGCONT)


@case("lock", needs=["across_processes"])
async def a_hold_is_broken_from_another_process(at: Arena) -> None:
    worker = at.worker()
    hold = await at.lock(ttl=3.0).acquire()
    assert await worker.call("break_", at.name, at.number(hold) + 1) is False
    assert await worker.call("break_", at.name, at.number(hold)) is True
    assert await worker.acquire(at.name, timeout=5) is not None
    assert await hold.wait_lost(5) is Loss.BROKEN
    assert await worker.call("release", at.name) is True


@case("lock", needs=["across_processes", "detach"])
async def a_hold_continues_in_another_process(at: Arena) -> None:
    worker = at.worker()
    hold = await at.lock().acquire()
    token = await hold.detach()
    assert await worker.call("adopt", token) == hold.fence
    with raises(NotHeld):
        await at.others.adopt(token)
    (holder,) = await at.holders()
    assert f":{worker.pid}:" in holder.owner
    back = await at.others.adopt(await worker.call("detach", at.name))
    assert back.fence == hold.fence
    assert await back.release() is True


@case("lock", needs=["across_processes", "detach"])
async def a_detached_hold_outlives_the_process_that_took_it(at: Arena) -> None:
    worker = at.worker()
    fence = await worker.acquire(at.name, ttl=20.0)
    token = await worker.call("detach", at.name)
    worker.kill()
    assert await at.lock().acquire(blocking=False) is None
    mine = await at.locks.adopt(token)
    assert mine.fence == fence
    assert await mine.release() is True


@case(*SINGLE, alone=True)
async def the_child_of_a_fork_holds_nothing_and_frees_nothing(at: Arena) -> None:
    async def child() -> list[Any]:
        seen: list[Any] = [hold.lost, str(hold.state), hold.remaining()]
        try:
            hold.check()
        except LockLost as loss:
            seen.append(loss.reason)
        seen.append(await hold.release())
        async with at.locks.lock(at.fresh("child"), timeout=20) as other:
            seen.append(str(other.state))
        return seen

    hold = await at.lock(ttl=5.0).acquire()
    assert await in_child(at, child) == [Loss.FORKED, "lost", 0.0, Loss.FORKED, False, "held"]
    assert [one.fence for one in await at.holders()] == [at.number(hold)]
    hold.check()
    assert await hold.extend() > 0
    assert await hold.release() is True


@case(*SINGLE, needs=["across_processes"], alone=True)
async def the_child_of_a_fork_is_another_owner_and_waits(at: Arena) -> None:
    async def child() -> list[Any]:
        async with at.locks.lock(at.fresh("child"), timeout=20):
            pass  # connects: on a busy machine the non-blocking acquire below has no time for that
        if at.primitive.name == "read":
            writer = at.locks.rwlock(at.name).write
            return [await writer.acquire(blocking=False) is None, at.locks.owner]
        return [await at.lock().acquire(blocking=False) is None, at.locks.owner]

    async with at.lock() as hold:
        refused, owner = await in_child(at, child)
        assert refused is True
        assert owner != at.locks.owner
        hold.check()


@case("lock", alone=True)
async def a_fork_is_seen_by_a_hold_whose_client_is_forgotten(at: Arena) -> None:
    async def taken() -> tuple[Any, Any]:
        lock = at.face.client(at.url, label="forgotten").lock(at.name, ttl=20.0)
        return lock, await lock.acquire()

    async def child() -> list[Any]:
        inherited = _sockets()
        seen: list[Any] = [hold.lost, await hold.release()]
        async with lock._renamed(at.fresh("child")) as other:
            seen.append(str(other.state))
            return [*seen, other.owner == owner, _sockets() > inherited]

    lock, hold = await taken()
    gc.collect()
    owner = hold.owner
    talks = not at.url.startswith(("memory:", "sqlite:")) and bool(_sockets())
    said = await in_child(at, child)
    assert said[:4] == [Loss.FORKED, False, "held", False]
    assert said[4] or not talks, "the child works over a connection of its parent"
    assert [one.fence for one in await at.holders()] == [at.number(hold)]
    assert await hold.extend() > 0
    assert await hold.release() is True


def _sockets() -> set[str]:
    """Return the open sockets of this process; empty if the system doesn't list them."""
    found = set()
    for fd in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {one for one in found if one.startswith("socket:")}


@case("lock", only="sync", because="an event loop has one thread", alone=True)
async def threads_that_fork_at_once_do_no_harm(at: Arena) -> None:
    async def fork() -> None:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)

    async def work(client: Any, number: int) -> int:
        rounds = 0
        while not over:
            async with client.lock(at.fresh(str(number % 2)), timeout=5):
                rounds += 1
        return rounds

    over: list[bool] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # makes it likely that a fork happens at the worst moment
    try:
        workers = [at.start(work, at.client(), number) for number in range(4)]
        for forker in [at.start(fork) for _ in range(3)]:
            await forker.result()
        over.append(True)
        assert min([await worker.result() for worker in workers]) > 0
    finally:
        over.append(True)
        sys.setswitchinterval(interval)


@case("lock", alone=True)
async def a_body_that_forks_is_left_by_the_parent_alone(at: Arena) -> None:
    async def child() -> str:
        return f"{hold.lost}"

    async with at.lock() as hold:
        assert await in_child(at, child) == Loss.FORKED
    assert not await at.holders()
    async with at.lock(ttl=KEPT_S) as again:
        await in_child(at, child)
        await at.renewed(again)
        again.check()
