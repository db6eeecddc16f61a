"""A Python lock client in a separate process: ``python -m tests.interop.python.worker KIND``.

It carries out commands in lines of JSON, as `tests.interop.crew` describes. KIND is a key of
`CLIENTS`.
"""

from __future__ import annotations

import json
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from tests.interop.python.ours import Ours
from tests.interop.python.theirs import Pottery, PythonRedisLock, RedisPy, RedisPyAsync

#: The clients. Each has the methods of `Ours`, with the same meaning.
CLIENTS: dict[str, Callable[[], Any]] = {
    "holdfast": Ours,
    "holdfast-asyncio": partial(Ours, "aio"),
    "redis-py": RedisPy,
    "redis-py-asyncio": RedisPyAsync,
    "python-redis-lock": PythonRedisLock,
    "pottery": Pottery,
}


class Worker:
    """The commands of a worker. Each is a method, and its result is the answer."""

    def __init__(self, locks: Any) -> None:
        self._locks = locks
        self._server: redis.Redis | None = None
        self._holds: dict[str, Any] = {}

    def open(self, server: str, url: str, watchdog: float) -> dict[str, Any]:
        if self._server is not None:
            self._locks.close()
            self._server.close()
        self._holds.clear()
        self._server = redis.Redis.from_url(server)
        self._locks.open(server, url, watchdog)
        return {}

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> dict[str, Any]:
        asked = time.monotonic()
        hold = self._locks.acquire(name, kind, wait, lease)
        at = time.monotonic()
        if hold is not None:
            self._holds[name] = hold
        return {"held": hold is not None, "asked": asked, "at": at, "fence": self._fence(hold)}

    def _fence(self, hold: Any) -> int:
        return 0 if hold is None else self._locks.fence(hold)

    def release(self, name: str) -> dict[str, Any]:
        hold = self._holds.pop(name)
        at = time.monotonic()
        return {"at": at, "released": self._locks.release(hold)}

    def steal(self, name: str, kind: str) -> dict[str, Any]:
        return {"refused": self._locks.steal(name, kind)}

    def loop(
        self,
        name: str,
        kind: str,
        who: str,
        side: str,
        target: int,
        seconds: float,
        wait: float,
        lease: float,
        inside: list[float],
        pause: list[float],
        enter: str,
        leave: str,
        keys: list[str],
    ) -> dict[str, Any]:
        assert self._server is not None
        step_in = self._server.register_script(enter)
        step_out = self._server.register_script(leave)
        turns: list[list[float]] = []
        trouble: list[str] = []
        end = time.monotonic() + seconds
        handed = 0
        while handed < target and time.monotonic() < end:
            asked = time.monotonic()
            hold = self._locks.acquire(name, kind, wait, lease)
            held = time.monotonic()
            if hold is None:
                trouble.append(f"{who} waited without success for {held - asked:.3f} s")
                continue
            found, handed = _answer(step_in(keys, [who, side, f"{asked:.6f}"]))
            if found:
                trouble.append(f"{who} came in while {found} was inside")
            time.sleep(random.uniform(*inside))
            left = time.monotonic()
            found, _ = _answer(step_out(keys, [who, side, f"{left:.6f}"]))
            if found:
                trouble.append(f"{who} was inside and found {found}")
            if not self._locks.release(hold):
                trouble.append(f"{who} could not release what it held")
            turns.append([asked, held, left])
            time.sleep(random.uniform(*pause))
        return {"turns": turns, "trouble": trouble, "handed": handed}


def _answer(said: bytes) -> tuple[str, int]:
    found, _, handed = said.decode().rpartition("|")
    return found, int(handed)


def main(client: str) -> None:
    """Answer line by line; end at the end of the input, even during a command."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    mouth = os.dup(1)
    os.dup2(2, 1)

    def listen() -> None:
        for line in sys.stdin:
            told.put(line)
        os._exit(0)

    def say(answer: dict[str, Any]) -> None:
        os.write(mouth, json.dumps(answer).encode() + b"\n")

    threading.Thread(target=listen, daemon=True).start()
    worker = Worker(CLIENTS[client]())
    say({"ready": client})
    while True:
        what = json.loads(told.get())
        try:
            say(getattr(worker, what.pop("do"))(**what))
        except Exception as failure:
            say({"error": f"{type(failure).__name__}: {failure}"})


if __name__ == "__main__":
    main(sys.argv[1])
