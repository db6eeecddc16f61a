"""Telling customers what became of their refunds: work that is done later, in no order.

A notice goes into the plain lane of the queue: it is put without a group, so it waits for nothing
but a free worker, and any number of them are sent at the same time. The same workers do both.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple

from holdfast.sync import Delivery, Queue

from .ledger import Entry, Ledger

#: Seconds that the mail server takes, which a pause stands for here: from, to.
SLOW_S = (0.02, 0.08)


class Notice(NamedTuple):
    """What the customer who asked for a refund is told."""

    refund: str
    text: str


def notice_of(entry: Entry) -> Notice:
    """The words for what the ledger says."""
    if entry.receipt is None:
        return Notice(entry.refund, f"{entry.order} was paid back before")
    return Notice(entry.refund, f"{entry.cents} cents for {entry.order}: {entry.receipt}")


def announce(queue: Queue, refund: str) -> None:
    """Have a notice of this refund sent later. Asked for twice, it is put once."""
    queue.put({"notice": refund}, id=f"notice:{refund}")


def send(job: Delivery, ledger: Ledger) -> None:
    """Send the notice of a delivery. A worker may die amid this, and another one does it again: by
    its id the outbox takes a notice once, as a mail server does by the id of a message."""
    entry = ledger.entry(job.payload["notice"])
    if entry is None:
        raise LookupError(f"refund {job.payload['notice']} isn't settled")
    time.sleep(random.uniform(*SLOW_S))
    ledger.sent(*notice_of(entry))
