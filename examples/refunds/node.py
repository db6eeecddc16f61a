"""The HTTP service. Run as many as you like: ``python -m refunds.node 8080``.

``POST /refunds`` with ``{"id", "merchant", "order", "cents"}`` is answered by

    200   it is paid; here is the receipt
    202   it is accepted, and will be paid, whatever dies meanwhile
    409   the order was paid back before, by another refund
    503   the store doesn't answer: send it again, with the same id
"""

from __future__ import annotations

import sys
from typing import Any

from holdfast import Client, LockLost, StoreUnavailable

from .ledger import Entry, Ledger
from .refund import Refund, parse
from .settings import Settings, refunds_of, settings
from .web import serve

#: A customer waits so many seconds for the bank; after that "accepted" has to do.
PATIENCE_S = 0.3

Reply = tuple[int, dict[str, Any]]


class Node:
    """Takes refunds."""

    def __init__(self, known: Settings) -> None:
        self._client = Client(known.store, label="node")
        self._refunds = refunds_of(self._client, known)
        self._ledger = Ledger(known.ledger)

    def answer(self, path: str, sent: Any) -> Reply:
        """What is answered to a request."""
        if path != "/refunds" or sent is None:
            return 404, {"error": "POST /refunds"}
        try:
            return self._take(parse(sent))
        except ValueError as wrong:
            return 400, {"error": str(wrong)}
        except (StoreUnavailable, LockLost) as wrong:
            return 503, {"error": str(wrong)}

    def _take(self, refund: Refund) -> Reply:
        """Try the lock of the order, without waiting for it."""
        hold = self._client.lock(f"order:{refund.order}").acquire(blocking=False)
        if hold is None:  # busy: somebody is at this very order. The worker will sort it out
            self._accept(refund)
            return 202, {"accepted": refund.id}
        with hold:
            before = self._ledger.payment(refund.order)
            if before is None:
                self._accept(refund)
                before = self._ledger.wait(refund.id, PATIENCE_S)
        if before is None:  # slow
            return 202, {"accepted": refund.id}
        return told(refund, before)

    def _accept(self, refund: Refund) -> None:
        """From here on it is safe. A second one with this id is dropped."""
        self._refunds.put(refund._asdict(), group=refund.merchant, id=refund.id)


def told(refund: Refund, entry: Entry) -> Reply:
    """What the ledger says to this refund, as an answer."""
    if entry.refund != refund.id or entry.receipt is None:
        return 409, {"error": f"order {refund.order} was paid back before"}
    return 200, {"paid": refund.id, "receipt": entry.receipt}


if __name__ == "__main__":
    serve(Node(settings()).answer, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
