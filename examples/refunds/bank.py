"""The bank: slow on purpose, and so strict that it notices every error of a queue.

``python -m refunds.bank 8300``

    POST /pay     pay a refund, once for each id; a fence is refused if the bank has seen a greater
                  one for the merchant
    POST /asked   return the receipt of a refund; 202: the payment runs; 404: no request came
    GET /calls    return all requests for payments with their times, and the errors: two payments
                  of one merchant at the same time, a payment too early after the last one, an order
                  that two refunds paid back
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

from .refund import parse
from .settings import settings
from .web import serve

#: Minimum and maximum seconds of a payment.
SLOW_S = (0.02, 0.06)
#: Allowed difference in seconds between the store's and the bank's measure of an interval.
CLOCKS_S = 0.001


class Account:
    """The bank's data of one merchant."""

    def __init__(self) -> None:
        self.fence = 0
        #: Number of payments that run now.
        self.busy = 0
        #: The end of the last payment.
        self.ended = -1e9


class Bank:
    """Pays refunds, and records every call and every error."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._one = threading.Lock()
        self._accounts: dict[str, Account] = {}
        #: Order -> the refund that paid it back; refund -> its receipt.
        self._orders: dict[str, str] = {}
        self._receipts: dict[str, str] = {}
        self._calls: list[dict[str, Any]] = []
        self._wrongs: list[str] = []

    def answer(self, path: str, sent: Any) -> tuple[int, Any]:
        """Return the status and the body of the reply to a request."""
        if path == "/pay" and sent is not None:
            return self._pay(sent)
        with self._one:
            if path == "/asked" and sent is not None:
                return self._asked(sent["id"])
            if path == "/calls":
                return 200, {"calls": self._calls, "wrongs": self._wrongs}
        return 404, {"error": "POST /pay, POST /asked or GET /calls"}

    def _asked(self, refund: str) -> tuple[int, Any]:
        if refund in self._receipts:
            return 200, {"receipt": self._receipts[refund]}
        if any(call["id"] == refund for call in self._calls):
            return 202, {}
        return 404, {"error": f"no request for {refund}"}

    def _pay(self, sent: dict[str, Any]) -> tuple[int, Any]:
        refund = parse(sent)
        call = {**sent, "begun": time.monotonic()}
        with self._one:
            account = self._accounts.setdefault(refund.merchant, Account())
            if sent["fence"] < account.fence:
                return 409, {"error": f"fence {sent['fence']} is older than {account.fence}"}
            account.fence = sent["fence"]
            self._look(account, call)
            account.busy += 1
            self._calls.append(call)
        time.sleep(random.uniform(*SLOW_S))
        with self._one:
            receipt = self._receipts.setdefault(refund.id, f"receipt-{len(self._receipts) + 1}")
            first = self._orders.setdefault(refund.order, refund.id)
            if first != refund.id:
                self._wrongs.append(f"{refund.order} was paid back by {first} and {refund.id}")
            account.busy -= 1
            account.ended = call["ended"] = time.monotonic()
            return 200, {"receipt": receipt}

    def _look(self, account: Account, call: dict[str, Any]) -> None:
        """Record an error if this payment isn't allowed now."""
        pause = call["begun"] - account.ended
        if account.busy:
            self._wrongs.append(f"{call['merchant']}: {call['id']} while another is being paid")
        elif pause < self._interval - CLOCKS_S:
            self._wrongs.append(f"{call['merchant']}: {call['id']} after {pause:.3f} s")


if __name__ == "__main__":
    serve(Bank(settings().interval).answer, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
