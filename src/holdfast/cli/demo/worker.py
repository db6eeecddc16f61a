"""A worker: a separate process that carries out orders and reports its events.

It exits when its pipe is closed, because then the story has ended.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import FenceRejected, LockLost
from ...fenced import FencedFile
from ...runtime.blocking import boottime
from ...sync import Client, Hold
from . import ledger
from .history import Event, What

#: The name of the lock that all workers use.
NAME = "ledger"
#: The signals that end the story.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Order(NamedTuple):
    """An order for a worker. ``ttl`` and ``pause`` are seconds.

    ``rounds``: the number of entries to write, with a new hold for each. ``pause``: the time of the
    work on an entry. ``gate``: wait for a message between the grant and the write. ``blind``: don't
    check the hold immediately before the write. ``bytes``: the length of the memo, for a long
    write, after which the worker keeps the lock until a message arrives.
    """

    rounds: int = 1
    ttl: float = 30.0
    pause: float = 0.0
    gate: bool = False
    blind: bool = False
    bytes: int = 0


class Worker:
    """The work of one process."""

    def __init__(self, name: str, store: Path, path: Path, pipe: Connection) -> None:
        self._name = name
        self._pipe = pipe
        self._random = random.Random()
        self._ledger = FencedFile(path)
        self._client = Client(store, label=name)

    def serve(self) -> None:
        """Carry out orders until None arrives."""
        # Open the files before the story begins, so that no measured time includes the opening.
        self._client.inspect(NAME, exact=True)
        self.tell(What.READY)
        while order := self._pipe.recv():
            for _ in range(order.rounds):
                self._take_part(order)
            self.tell(What.DONE)
        self._client.close()

    def _take_part(self, order: Order) -> None:
        begun = self.tell(What.ASKED)
        refused = False
        try:
            with self._client.lock(NAME, ttl=order.ttl) as hold:
                self.tell(What.HELD, hold.fence, took=boottime() - begun)
                refused = not self._write(order, hold)
                self.tell(What.LEAVING, hold.fence)
        except LockLost:
            if not refused:  # after a refused write, the loss is expected
                raise

    def _write(self, order: Order, hold: Hold) -> bool:
        """Read the balance, work, and write the next entry under the fence of this hold.

        Return False if the ledger refused the entry.
        """
        coins = self._random.randint(1, 9) * self._random.choice((-5, 5, 10))
        memo = "x" * order.bytes
        entry = ledger.follow(self._ledger.read(), self._name, hold.fence, coins, memo)
        time.sleep(order.pause)
        hold.check()
        if order.gate:
            self.tell(What.WRITING, hold.fence)
            self._pipe.recv()
        try:
            self._ledger.append(hold.fence if order.blind else hold, entry.line())
        except FenceRejected as no:
            self.tell(What.REJECTED, hold.fence, str(no))
            return False
        self.tell(What.WROTE, hold.fence, entry=entry)
        if order.bytes:
            self._pipe.recv()
        return True

    def tell(self, what: What, fence: int = 0, text: str = "", **more: Any) -> float:
        """Report an event that happens now; return its time."""
        at = boottime()
        self._pipe.send(Event(at, self._name, what, fence, text, **more))
        return at


def main(
    name: str, store: Path, path: Path, pipe: Connection, others: Iterable[Connection]
) -> None:
    """Run a worker process; it starts with ``SIGNALS`` blocked."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    # Ctrl-C reaches the whole process group. Only the story's process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for other in others:  # while a copy is open here, that worker doesn't notice the story's end
        other.close()
    worker = Worker(name, store, path, pipe)
    with contextlib.suppress(EOFError, BrokenPipeError):
        try:
            worker.serve()
        except Exception as wrong:  # the story must report any error
            worker.tell(What.FAILED, text=f"{type(wrong).__name__}: {wrong}")
