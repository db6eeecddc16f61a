"""Customers: they ask for refunds, click twice, and send again what nobody answered."""

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

#: After no answer, or 503, a customer tries another node in so many seconds.
AGAIN_S = 0.1
#: A customer who is not answered for so many seconds gives up, and the play with it.
PATIENCE_S = 60.0


class Asked(NamedTuple):
    """A refund that was asked for: from when, when it was answered, and how."""

    refund: Refund
    sent: float
    answered: float
    status: int

    @property
    def accepted(self) -> bool:
        """Was it promised to be paid?"""
        return self.status in (200, 202)


class Customers:
    """One thread for each merchant, which sends one refund after the other."""

    def __init__(self, nodes: Callable[[], list[str]], merchants: int, refunds: int) -> None:
        self._nodes = nodes
        self.merchants = [f"merchant-{number}" for number in range(1, merchants + 1)]
        self._refunds = refunds
        #: So that no id was ever used before, whatever was played on this store.
        self._run = secrets.token_hex(4)
        self.asked: list[Asked] = []
        self._threads = [
            threading.Thread(target=self._shop, args=(merchant,), daemon=True)
            for merchant in self.merchants
        ]

    def start(self) -> None:
        """Let them begin."""
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> bool:
        """Is anybody still asking?"""
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
        """Two clicks on one button: two refunds of one order, at the same time."""
        for click in range(1, count + 1):
            refund = Refund(f"{order}/refund-{click}/{self._run}", merchant, order, 100)
            yield threading.Thread(target=self._send, args=(refund,), daemon=True)

    def _send(self, refund: Refund) -> None:
        """Send it until it is answered, always with the same id."""
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
