"""A worker: a process of its own that does what it is ordered to and tells what happens to it.

Orders come as lines of JSON on one pipe, events go out on another. When the pipe of orders ends,
because whoever told the story is gone, the worker goes too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...errors import FenceRejected, LockLost
from ...fenced import FencedFile
from ...runtime.blocking import boottime
from ...sync import Client, Hold
from . import ledger
from .history import Event, What

#: What all workers want.
NAME = "ledger"


class Order(NamedTuple):
    """What a worker is to do. ``ttl`` and ``pause`` are seconds.

    ``wait``: stand in line; else one try. ``rounds``: how many entries to write, one hold each.
    ``pause``: how long the work on an entry takes. ``gate``: having the lock, go on only when
    told to. ``blind``: write with the fence alone, without asking the hold again. ``bytes``:
    the length of the memo, for an entry that takes long to write; such a worker keeps the lock
    after it, until told to go on.
    """

    wait: bool = True
    rounds: int = 1
    ttl: float = 30.0
    pause: float = 0.0
    gate: bool = False
    blind: bool = False
    bytes: int = 0


class Worker:
    """The work of one process."""

    def __init__(
        self, name: str, store: Path, path: Path, seed: int, orders: BinaryIO, events: BinaryIO
    ) -> None:
        self._name = name
        self._orders = orders
        self._events = events
        self._random = random.Random(f"{seed}:{name}")
        self._ledger = FencedFile(path)
        self._client = Client(store, label=name)

    def serve(self) -> None:
        """Carry out orders until there are no more."""
        # Connected before the story begins, so that it tells of the lock and not of opening files.
        self._client.inspect(NAME, exact=True)
        self._tell(What.READY)
        while line := self._orders.readline():
            order = Order(*json.loads(line))
            if order.wait:
                for _ in range(order.rounds):
                    self._take_part(order)
            else:
                self._try_once(order)
            self._tell(What.DONE)
        self._client.close()

    def _try_once(self, order: Order) -> None:
        begun = boottime()
        hold = self._client.lock(NAME, ttl=order.ttl).acquire(blocking=False)
        took = boottime() - begun
        if hold is not None:
            self._tell(What.HELD, fence=hold.fence, took=took, text=hold.owner)
            self._orders.readline()
            hold.release()
            return
        lines = self._client.inspect(NAME, exact=True)
        holder = lines[0].holders[0] if lines and lines[0].holders else None
        fence, owner = (holder.fence, holder.owner) if holder else (0, "")
        self._tell(What.BUSY, fence=fence, took=took, text=owner)

    def _take_part(self, order: Order) -> None:
        begun = self._tell(What.ASKED)
        refused = False
        try:
            with self._client.lock(NAME, ttl=order.ttl) as hold:
                self._tell(What.HELD, fence=hold.fence, took=boottime() - begun)
                refused = not self._write(order, hold)
                self._tell(What.LEAVING, fence=hold.fence)
        except LockLost:
            if not refused:  # whoever was refused has said so already
                raise

    def _write(self, order: Order, hold: Hold) -> bool:
        """Read the balance, work, and write the next entry under the fence of this hold; False if
        the ledger refused it."""
        coins = self._random.randint(1, 9) * self._random.choice((-5, 5, 10))
        memo = "x" * order.bytes
        entry = ledger.follow(self._ledger.read(), self._name, hold.fence, coins, memo)
        time.sleep(order.pause)
        hold.check()
        if order.gate:
            self._tell(What.WRITING, fence=hold.fence, number=entry.number)
            self._orders.readline()
        try:
            self._ledger.append(hold.fence if order.blind else hold, entry.line())
        except FenceRejected as no:
            self._tell(What.REJECTED, fence=hold.fence, text=str(no))
            return False
        number, amount, balance, _, fence, _ = entry
        self._tell(What.WROTE, fence=fence, number=number, amount=amount, balance=balance)
        if order.bytes:
            self._orders.readline()
        return True

    def _tell(
        self,
        what: What,
        fence: int = 0,
        took: float = 0.0,
        number: int = 0,
        amount: int = 0,
        balance: int = 0,
        text: str = "",
    ) -> float:
        """Say what happened just now; the time of it."""
        at = boottime()
        self._events.write(
            Event(at, self._name, what, fence, took, number, amount, balance, text).encode()
        )
        self._events.flush()
        return at


def main(name: str, store: Path, path: Path, seed: int, orders: BinaryIO, events: BinaryIO) -> int:
    """The life of a worker process; its exit status."""
    # The story answers Ctrl-C: it reaches the whole group, and one account of it is enough.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        Worker(name, store, path, seed, orders, events).serve()
    except BrokenPipeError:
        return 1
    except Exception as wrong:  # whatever it is, the story has to tell it
        failed = Event(boottime(), name, What.FAILED, text=f"{type(wrong).__name__}: {wrong}")
        os.write(events.fileno(), failed.encode())
        return 1
    return 0
