"""Rare ends: a second close, an ended event loop, a thread that could not start."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, LockLost, Loss
from holdfast.core.model import Leave
from holdfast.core.policy import TOMB_S
from holdfast.core.queue.model import Pace, Patience, Take
from holdfast.runtime.aio import AioLatch
from holdfast.stores.memory.aio import AioMailbox
from holdfast.stores.memory.jobs import LIFE_S, Queue
from holdfast.stores.memory.line import TOMBS_LOOK, Lines
from tests.core.bounded import bounded
from tests.core.flaky import behind

ENDS = """
import asyncio
from holdfast import AsyncClient

client = AsyncClient({url!r})
kept = []

async def waits():
    await client.lock("x").acquire()

async def main():
    kept.append(await client.lock("x", ttl=30).acquire())
    kept.append(asyncio.ensure_future(waits()))
    await asyncio.sleep({pause})

asyncio.run(main())
print("over")
"""


@pytest.mark.parametrize("pause", [0, 0.1])
@pytest.mark.parametrize("store", ["memory", "sqlite", "redis"])
def test_a_loop_that_ends_with_a_hold_and_a_waiter_reports_only_the_loss(
    store: str, pause: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = {"memory": "memory://ends", "sqlite": f"sqlite://{tmp_path}/l.db"}.get(store, "")
    if store == "redis":
        url = request.getfixturevalue("redis_url") + f"?prefix=ends{os.urandom(4).hex()}"
    text = ENDS.format(url=url, pause=pause)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "over\n")
    assert re.fullmatch(r"lost 'x' \(fence \d+\): client closed\n", done.stderr), done.stderr


@bounded
async def test_a_worker_thread_that_could_not_start_once_starts_with_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, failed = threading.Thread.start, []

    def limited(self: threading.Thread) -> None:
        if self.name == "holdfast-sqlite" and len(failed) < 2:
            failed.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)

    async with AsyncClient(f"sqlite://{tmp_path}/l.db") as locks, locks.lock("x") as hold:
        hold.check()
        assert await locks.lock("x").acquire(blocking=False) is None
    assert len(failed) == 2


@bounded
async def test_all_at_once_cancels_its_body_when_a_part_is_lost_that_asks_for_it() -> None:
    loop = asyncio.get_running_loop()
    async with AsyncClient("memory://cancels") as locks:
        parts = locks.lock("x", cancel_on_lost=True), locks.lock("y")
        for lost in (0, 1):
            reached = []
            with pytest.raises(LockLost):  # noqa: PT012
                async with locks.all(*parts) as hold:
                    lease, ctx = hold.holds[lost]._lease, hold.holds[lost]._ctx
                    loop.call_soon(ctx.keeper._let_go, lease, Loss.BROKEN)
                    loop.call_soon(ctx.keeper._latch.set)
                    await asyncio.sleep(0.05)
                    reached.append(lost)
            assert reached == ([1] if lost else [])
            assert asyncio.current_task().cancelling() == 0


def test_a_second_close_ends_what_the_first_one_was_interrupted_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client("memory://twice")
    client.lock("x").acquire()
    closed: list[int] = []
    end = client._ctx.store.close

    async def close() -> None:
        closed.append(1)
        if len(closed) == 1:
            raise KeyboardInterrupt
        await end()

    monkeypatch.setattr(client._ctx.store, "close", close)
    with pytest.raises(KeyboardInterrupt):
        client.close()
    assert not client._ctx.ended
    client.close()
    assert (client._ctx.ended, len(closed)) == (True, 2)
    client.close()
    assert len(closed) == 2


def test_a_client_is_closed_while_threads_make_holds_that_nothing_renews() -> None:
    failed: list[BaseException] = []

    def make(number: int, client: Client, ready: threading.Barrier) -> None:
        ready.wait(20)
        try:
            for turn in range(300):
                client.lock(f"{number}.{turn}", auto_renew=False).acquire()
        except ConnectionError:
            pass  # the client is closed
        except BaseException as failure:
            failed.append(failure)

    for _ in range(6):
        client, ready = Client("memory://beside"), threading.Barrier(4)
        threads = [threading.Thread(target=make, args=(n, client, ready)) for n in range(3)]
        for thread in threads:
            thread.start()
        ready.wait(20)
        client.close()
        for thread in threads:
            thread.join(60)
        assert failed == []
    with Client("memory://beside") as client:
        client.lock("0.0", ttl=1).acquire()


@pytest.mark.parametrize("wake", ["latch", "mailbox"])
def test_a_wake_up_for_an_ended_loop_does_not_fail(wake: str) -> None:
    loop = asyncio.new_event_loop()
    box: Any = None

    async def main() -> None:
        nonlocal box
        box = AioLatch() if wake == "latch" else AioMailbox()
        task = asyncio.ensure_future(box.wait(60))
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel = lambda: None

    loop.run_until_complete(main())
    pending = asyncio.all_tasks(loop)
    loop.close()
    box.set() if wake == "latch" else box.poke(7)
    for task in pending:
        task._log_destroy_pending = False


def sweeps(thing: Any, add: Callable[[int], object]) -> int:
    """Add many tombstones; return how often all of them were looked through."""
    looks, before = 0, id(thing.tombs)
    for number in range(20 * TOMBS_LOOK):
        add(number)
        looks, before = looks + (id(thing.tombs) != before), id(thing.tombs)
    assert len(thing.tombs) == 20 * TOMBS_LOOK
    return looks


def test_the_number_of_tombstone_sweeps_does_not_grow_with_their_number() -> None:
    lines, leave = Lines(), Leave("x", "", 0, 0.0, True, 30.0)
    looks = sweeps(lines, lambda number: lines.leave(leave._replace(id=f"{number:032x}"), 0.0))
    assert looks <= 6, "each one more than that looks through all of them"
    # And a sweep does remove them
    lines._tombs_look = 0
    lines.leave(leave._replace(id="f" * 32), 31 + TOMB_S)
    assert len(lines.tombs) == 1


def test_the_number_of_sweeps_of_take_tombstones_does_not_grow() -> None:
    queue, take = Queue(), Take("q", "", 1, 30.0, "host:1:test", Pace(), Patience())
    looks = sweeps(queue, lambda number: queue.give_back(take._replace(id=f"{number:032x}"), 0.0))
    assert looks <= 6, "each one more than that looks through all of them"
    # And a sweep does remove them, also without a put
    queue._tombs_look = 0
    queue.give_back(take._replace(id="f" * 32), 31 + TOMB_S)
    assert len(queue.tombs) == 1
    # And a queue that contains only tombstones is forgotten
    queue.give_back(take._replace(id="e" * 32), 31 + TOMB_S)
    assert queue.forgettable(2 * LIFE_S)


@bounded
async def test_an_undo_continues_after_its_renewer_is_cancelled() -> None:
    async with AsyncClient("memory://undone") as locks:
        flaky, hold = behind(locks), await locks.lock("x").acquire()
        ctx, begun, free = hold._ctx, asyncio.Event(), asyncio.Event()
        leave = flaky.store.leave

        async def slow(undo: Leave, within: float) -> bool:
            begun.set()
            await free.wait()
            return await leave(undo, within)

        ctx.store.leave = slow
        hold._abandon()
        async with asyncio.timeout(10):
            await begun.wait()
            (keeper,) = ctx.runtime._tasks
            keeper.cancel()
            free.set()
            while await locks.inspect("x"):
                await asyncio.sleep(0.01)
