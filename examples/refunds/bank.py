"""The bank: slow on purpose, and so strict that it notices whatever a queue may do wrong.

``python -m refunds.bank 8300``

    POST /pay     pays a refund, once for each id; it refuses a worker whose fence is older than one
                  that it has seen for this merchant
    POST /asked   was this refund paid? A receipt; or 202, it is being paid; or 404
    GET /calls    who had what paid, when, and what was wrong: two payments at once for one
                  merchant, one too soon after the last, an order paid back by two refunds
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

#: How long a payment takes, seconds: from, to.
SLOW_S = (0.02, 0.06)
#: Two clocks may differ by so much within an interval, seconds.
CLOCKS_S = 0.001


class Account:
    """What the bank knows of one merchant."""

    def __init__(self) -> None:
        self.fence = 0
        #: The calls that are being answered just now.
        self.busy = 0
        self.ended = -1e9


class Bank:
    """Pays, and keeps a record of every call."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._one = threading.Lock()
        self._accounts: dict[str, Account] = {}
        #: Order -> the refund by which it was paid back; refund -> its receipt.
        self._orders: dict[str, str] = {}
        self._receipts: dict[str, str] = {}
        self._calls: list[dict[str, Any]] = []
        self._wrongs: list[str] = []

    def answer(self, path: str, sent: Any) -> tuple[int, Any]:
        """What is answered to a request."""
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
        return 404, {"error": f"nobody asked for {refund}"}

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
        """Is this call allowed now?"""
        pause = call["begun"] - account.ended
        if account.busy:
            self._wrongs.append(f"{call['merchant']}: {call['id']} while another is being paid")
        elif pause < self._interval - CLOCKS_S:
            self._wrongs.append(f"{call['merchant']}: {call['id']} after {pause:.3f} s")


if __name__ == "__main__":
    serve(Bank(settings().interval).answer, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
