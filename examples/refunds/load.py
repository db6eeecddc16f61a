"""Customers: they request refunds, sometimes twice, and repeat requests that get no reply."""

from __future__ import annotations

import itertools
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .refund import Refund
from .web import NoAnswer, ask

#: Seconds after a missing reply, or status 503, until a customer tries another node.
AGAIN_S = 0.1
#: Seconds without a reply after which a customer gives up; then the check fails.
PATIENCE_S = 60.0


class Asked(NamedTuple):
    """A requested refund: the times of the first request and of the reply, and its status."""

    refund: Refund
    sent: float
    answered: float
    status: int

    @property
    def accepted(self) -> bool:
        """True if the reply promised the payment."""
        return self.status in (200, 202)


class Customers:
    """Customers of all merchants: one thread for each merchant sends refunds one by one."""

    def __init__(self, nodes: Callable[[], list[str]], merchants: int, refunds: int) -> None:
        self._nodes = nodes
        self.merchants = [f"merchant-{number}" for number in range(1, merchants + 1)]
        self._refunds = refunds
        #: A part of each id, so that ids differ from those of earlier runs on the same store.
        self._run = secrets.token_hex(4)
        self.asked: list[Asked] = []
        self._threads = [
            threading.Thread(target=self._shop, args=(merchant,), daemon=True)
            for merchant in self.merchants
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> bool:
        """True while a customer still sends requests."""
        return any(thread.is_alive() for thread in self._threads)

    def _shop(self, merchant: str) -> None:
        dice = random.Random(merchant)
        orders = (f"{merchant}/order-{number}" for number in itertools.count(1))
        for order in itertools.islice(orders, self._refunds):
            clicks = [*self._clicks(merchant, order, 2 if dice.random() < 0.2 else 1)]
            for click in clicks:
                click.start()
            for click in clicks:
                click.join()
            time.sleep(dice.random() * 0.05)

    def _clicks(self, merchant: str, order: str, count: int) -> Iterator[threading.Thread]:
        """Yield a thread for each click on one button: each requests a refund of the same order."""
        for click in range(1, count + 1):
            refund = Refund(f"{order}/refund-{click}/{self._run}", merchant, order, 100)
            yield threading.Thread(target=self._send, args=(refund,), daemon=True)

    def _send(self, refund: Refund) -> None:
        """Send a refund until there is a reply, always with the same id."""
        sent = time.monotonic()
        while time.monotonic() < sent + PATIENCE_S:
            try:
                status, _ = ask(f"{random.choice(self._nodes())}/refunds", refund._asdict())
            except NoAnswer:
                status = 503
            if status != 503:
                self.asked.append(Asked(refund, sent, time.monotonic(), status))
                return
            time.sleep(AGAIN_S)
        self.asked.append(Asked(refund, sent, time.monotonic(), 0))
