"""The HTTP service. Any number of nodes can run: ``python -m refunds.node 8080``.

The reply to ``POST /refunds`` with ``{"id", "merchant", "order", "cents"}`` has one of these
statuses:

    200   the refund is paid; the reply contains the receipt
    202   the refund is accepted and will be paid, even if processes die before that
    409   another refund has paid the order back
    503   the store doesn't answer: send the request again, with the same id
"""

from __future__ import annotations

import sys
from typing import Any

from holdfast import Client, LockLost, StoreUnavailable

from .ledger import Entry, Ledger
from .refund import Refund, parse
from .settings import Settings, refunds_of, settings
from .web import serve

#: Maximum seconds to wait for the payment; after that the reply is 202.
PATIENCE_S = 0.3

Reply = tuple[int, dict[str, Any]]


class Node:
    """Accepts refunds over HTTP."""

    def __init__(self, known: Settings) -> None:
        self._client = Client(known.store, label="node")
        self._refunds = refunds_of(self._client, known)
        self._ledger = Ledger(known.ledger)

    def answer(self, path: str, sent: Any) -> Reply:
        """Return the status and the body of the reply to a request."""
        if path != "/refunds" or sent is None:
            return 404, {"error": "POST /refunds"}
        try:
            return self._take(parse(sent))
        except ValueError as wrong:
            return 400, {"error": str(wrong)}
        except (StoreUnavailable, LockLost) as wrong:
            return 503, {"error": str(wrong)}

    def _take(self, refund: Refund) -> Reply:
        """Accept a refund; try the lock of its order first, without waiting for it."""
        hold = self._client.lock(f"order:{refund.order}").acquire(blocking=False)
        if hold is None:  # another request has the lock of this order; the worker decides later
            self._accept(refund)
            return 202, {"accepted": refund.id}
        with hold:
            before = self._ledger.payment(refund.order)
            if before is None:
                self._accept(refund)
                before = self._ledger.wait(refund.id, PATIENCE_S)
        if before is None:  # the payment takes longer than the wait
            return 202, {"accepted": refund.id}
        return told(refund, before)

    def _accept(self, refund: Refund) -> None:
        """Put the refund into the queue: then it can't be lost. The queue drops a repeated id."""
        self._refunds.put(refund._asdict(), group=refund.merchant, id=refund.id)


def told(refund: Refund, entry: Entry) -> Reply:
    """Return the reply to a refund whose order has this entry in the ledger."""
    if entry.refund != refund.id or entry.receipt is None:
        return 409, {"error": f"order {refund.order} was paid back before"}
    return 200, {"paid": refund.id, "receipt": entry.receipt}


if __name__ == "__main__":
    serve(Node(settings()).answer, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
