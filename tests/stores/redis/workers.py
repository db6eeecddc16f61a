"""The work of processes that tests start, stop and kill (``holdfast.testing.faults.Subject``)."""

from __future__ import annotations

import asyncio
import os
import random
import time

from holdfast import AsyncClient, Client
from holdfast.testing.faults.stage import Stage


def hold(stage: Stage, url: str, name: str, ttl: float) -> None:
    """Hold the lock, report the fence, and stay until the test sends a message."""
    with Client(url) as client, client.lock(name, ttl=ttl) as held:
        stage.say(held.fence)
        stage.hear()


def wait(stage: Stage, url: str, name: str) -> None:
    """Wait for the lock, report the grant, and hold until the test sends a message."""
    with Client(url) as client, client.lock(name, timeout=30) as held:
        stage.say([held.fence, time.monotonic()])
        stage.hear()


class Marks:
    """Files that show which names are held, and the greatest fence of each name."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.turns = 0
        self.wrong: list[str] = []

    def inside(self, fences: dict[str, int], seconds: float) -> None:
        """Hold the names for `seconds`; note a second holder, and a fence that doesn't rise."""
        self.turns += 1
        marks = {f"{self._folder}/{name.rpartition(':')[2]}": one for name, one in fences.items()}
        for mark, fence in marks.items():
            try:
                os.close(os.open(mark + ".inside", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                self.wrong.append(f"{mark} is held by another")
            with open(mark, "a+", encoding="ascii") as note:
                note.seek(0)
                if fence <= int(note.read() or 0):
                    self.wrong.append(f"the fence {fence} of {mark} came before")
                note.truncate(0)
                note.write(str(fence))
        time.sleep(seconds)
        for mark in marks:
            os.unlink(mark + ".inside")


def some_of(
    stage: Stage, url: str, names: list[str], folder: str, seconds: float, seed: int, loop: bool
) -> None:
    """Take random names together, again and again; report the turns, and all errors."""
    chance, marks = random.Random(seed), Marks(folder)

    def chosen() -> list[str]:
        return chance.sample(names, chance.randint(2, 4))

    def begin() -> float:
        stage.say("ready")
        stage.hear()
        return time.monotonic() + seconds

    async def on_a_loop() -> None:
        async with AsyncClient(url) as client, client.lock(f"warm:{os.getpid()}"):
            end = begin()
            while time.monotonic() < end:
                async with client.all(*chosen(), timeout=20) as hold:
                    marks.inside(hold.fences, chance.choice([0.0, 0.002]))

    if loop:
        asyncio.run(on_a_loop())
    else:
        with Client(url) as client, client.lock(f"warm:{os.getpid()}"):
            end = begin()
            while time.monotonic() < end:
                with client.all(*chosen(), timeout=20) as hold:
                    marks.inside(hold.fences, chance.choice([0.0, 0.002]))
    stage.say([marks.turns, marks.wrong])
