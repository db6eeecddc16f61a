"""Functions that the subjects of these tests run, each in a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Client, HoldfastError, StoreUnavailable
from holdfast.errors import FenceRejected, LockLost, NotHeld
from holdfast.fenced import FencedFile
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Fork
from holdfast.testing.faults.stage import Stage
from holdfast.testing.histories import Recorder


def holds(stage: Stage, url: str, name: str, ttl: float = 30.0) -> None:
    """Acquire a name and report its fence; after any message, release it and report the result."""
    with Client(url) as client:
        hold = client.lock(name, ttl=ttl).acquire()
        stage.say(hold.fence)
        stage.hear()
        stage.say(hold.release())


async def holds_in_a_loop(stage: Stage, url: str, name: str, ttl: float = 30.0) -> None:
    """The same as ``holds``, under asyncio."""
    async with AsyncClient(url) as client:
        hold = await client.lock(name, ttl=ttl).acquire()
        stage.say(hold.fence)
        await asyncio.to_thread(stage.hear)
        stage.say(await hold.release())


def waits(stage: Stage, url: str, name: str) -> None:
    """Wait in line; when the name is held, report the fence and the time."""
    lag.watch()
    with Client(url) as client:
        stage.say("ready")
        hold = client.lock(name).acquire()
        stage.say([hold.fence, boottime(), _halts()])
        stage.hear()


async def waits_in_a_loop(stage: Stage, url: str, name: str) -> None:
    """The same as ``waits``, under asyncio."""
    lag.watch()
    async with AsyncClient(url) as client:
        stage.say("ready")
        hold = await client.lock(name).acquire()
        stage.say([hold.fence, boottime(), _halts()])
        await asyncio.to_thread(stage.hear)


def _halts() -> list[tuple[float, float]]:
    """Return the recent pauses of this process that the machine caused: when each ended, and its
    length."""
    return lag.long(boottime() - 5.0)


def holds_and_forks(stage: Stage, url: str, name: str) -> None:
    """Acquire a name, fork a child that lives on, report the fence and the child's pid; then
    wait."""
    client = Client(url)
    hold = client.lock(name).acquire()
    child = Fork(signal.pause)
    stage.say([hold.fence, child.pid])
    stage.hear()


def guards(stage: Stage, url: str, path: str, ttl: float) -> None:
    """Acquire a name, wait to be woken, then check the hold and write under it; repeat."""
    ledger = FencedFile(path, durable=False)
    with Client(url) as client:
        while stage.hear() is not None:
            hold = client.lock("x", ttl=ttl, auto_renew=False).acquire()
            stage.say(hold.fence)
            stage.hear()
            stage.say(_believes(hold, ledger))
            with contextlib.suppress(HoldfastError):
                hold.release()


async def guards_in_a_loop(stage: Stage, url: str, path: str, ttl: float) -> None:
    """The same as ``guards``, under asyncio and with renewal, for a process that is stopped."""
    ledger = FencedFile(path, durable=False)
    async with AsyncClient(url) as client:
        while await asyncio.to_thread(stage.hear) is not None:
            hold = await client.lock("x", ttl=ttl).acquire()
            stage.say(hold.fence)
            await asyncio.to_thread(stage.hear)
            stage.say(_believes(hold, ledger))
            with contextlib.suppress(HoldfastError):
                await hold.release()


def _believes(hold: Any, ledger: FencedFile) -> dict[str, bool]:
    """Check the hold, and write whatever the check returns; report which of both succeeded."""
    said = {"looks": True, "wrote": True, "remains": hold.remaining() > 0}
    try:
        hold.check()
    except (LockLost, NotHeld):
        said["looks"] = False
    try:
        ledger.append(hold.fence, f"late {hold.fence}\n")
    except FenceRejected:
        said["wrote"] = False
    return said


def writes(stage: Stage, url: str, folder: str, names: int, number: int) -> None:
    """Acquire locks as fast as possible and record their fences, until killed."""
    recorder = Recorder(Path(folder) / f"{number}.jsonl", f"writer-{number}")
    client = Client(url)
    stage.say("ready")
    turn = number
    while True:
        turn += 1
        claim = recorder.ask(f"name-{turn % names}")
        with client.lock(f"name-{turn % names}") as hold:
            recorder.held(claim, hold)
            recorder.leaving(claim)
        recorder.left(claim, True)


def contends(stage: Stage, url: str, folder: str, number: int, timeout: float) -> None:
    """Acquire one name with a time-out repeatedly, and record how long each try takes."""
    recorder = Recorder(Path(folder) / f"{number}.jsonl", f"worker-{number}")
    client = Client(url)
    lock = client.lock("x", ttl=2.0)
    lag.watch()
    stage.say("ready")
    while True:
        asked = boottime()
        claim = recorder.ask("x", timeout=timeout)
        try:
            hold = lock.acquire(timeout=timeout)
        except HoldfastError as why:
            recorder.failed(claim, why)
            recorder.halted(asked)
            continue
        if hold is None:
            recorder.busy(claim)
            recorder.halted(asked)
            continue
        recorder.held(claim, hold)
        recorder.halted(asked)
        time.sleep(0.02)
        recorder.leaving(claim)
        with contextlib.suppress(HoldfastError):
            recorder.left(claim, hold.release())


async def contends_in_a_loop(
    stage: Stage, url: str, folder: str, number: int, timeout: float
) -> None:
    """The same as ``contends``, under asyncio."""
    recorder = Recorder(Path(folder) / f"{number}.jsonl", f"worker-{number}")
    client = AsyncClient(url)
    lock = client.lock("x", ttl=2.0)
    lag.watch()
    stage.say("ready")
    while True:
        asked = boottime()
        claim = recorder.ask("x", timeout=timeout)
        try:
            hold = await lock.acquire(timeout=timeout)
        except HoldfastError as why:
            recorder.failed(claim, why)
            recorder.halted(asked)
            continue
        if hold is None:
            recorder.busy(claim)
            recorder.halted(asked)
            continue
        recorder.held(claim, hold)
        recorder.halted(asked)
        await asyncio.sleep(0.02)
        recorder.leaving(claim)
        with contextlib.suppress(HoldfastError):
            recorder.left(claim, await hold.release())


async def crowds(stage: Stage, url: str, many: int, label: str) -> None:
    """Acquire one lock with ``many`` tasks at once. Each task reports its fence, the time when it
    held, and the number of its attempts. The last message is the longest delay of the machine
    within a second."""
    lag.watch()
    async with AsyncClient(url, label=label) as client:
        served: list[list[Any]] = []

        async def one(number: int) -> None:
            asked, inside = 0, False
            while not inside:
                asked += 1
                with contextlib.suppress(StoreUnavailable):  # the store was busy: ask again
                    async with client.lock("x") as hold:
                        inside = True
                        served.append([number, hold.fence, boottime(), asked])

        begun = boottime()
        tasks = [asyncio.create_task(one(number)) for number in range(many)]
        stage.say("asked")
        await asyncio.gather(*tasks)
        # In portions, because the parent reads the pipe only message by message.
        for start in range(0, many, 100):
            stage.say(served[start : start + 100])
        stage.say(lag.most(begun, 1.0))


def sits_in_the_gate(stage: Stage, url: str) -> None:
    """Stop this process inside a verb, while it holds the file mutex; work on after SIGCONT."""
    from holdfast.testing.faults import Strike

    with Client(url) as client:
        client.lock("warm").acquire().release()
        stage.say("ready")
        stop = Strike(
            1,
            lambda: os.kill(os.getpid(), signal.SIGSTOP),
            function="holdfast.stores.sqlite.blocking.engine:Engine._join",
        )
        with stop:
            hold = client.lock("x").acquire()
        stage.say(hold.fence)
        hold.release()
