"""Notices to customers about the results of refunds: they are sent later, in no order.

A notice is an ungrouped job, so it waits only for a free worker. Any number of notices can be sent
at the same time. The same workers execute refunds and notices.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple

from holdfast.sync import Delivery, Queue

from .ledger import Entry, Ledger

#: Minimum and maximum seconds of a pause, which replaces the work of a mail server.
SLOW_S = (0.02, 0.08)


class Notice(NamedTuple):
    """A message to the customer that requested a refund."""

    refund: str
    text: str


def notice_of(entry: Entry) -> Notice:
    """Return the notice for an entry of the ledger."""
    if entry.receipt is None:
        return Notice(entry.refund, f"{entry.order} was paid back before")
    return Notice(entry.refund, f"{entry.cents} cents for {entry.order}: {entry.receipt}")


def announce(queue: Queue, refund: str) -> None:
    """Put a job that sends the notice of this refund. A second call for a refund has no effect."""
    queue.put({"notice": refund}, id=f"notice:{refund}")


def send(job: Delivery, ledger: Ledger) -> None:
    """Send the notice of a delivery.

    If a worker dies during this, another worker does it again. The outbox accepts a notice of a
    refund only once, like a mail server that recognises the id of a message."""
    entry = ledger.entry(job.payload["notice"])
    if entry is None:
        raise LookupError(f"refund {job.payload['notice']} isn't settled")
    time.sleep(random.uniform(*SLOW_S))
    ledger.sent(*notice_of(entry))
