"""A worker: takes refunds from the queue, one at a time per merchant, and has the bank pay them.
Beside them it sends the notices of those that are settled, in whatever order they come.

Run as many as you like: ``python -m refunds.worker``. SIGTERM lets it finish what it is at; after
``kill -9`` another one does the same refund again, when its lease is over. So each step may happen
twice, and is made so that the second time changes nothing.
"""

from __future__ import annotations

import signal
import sys
import time

from holdfast.sync import Client, Delivery, Queue

from .ledger import Ledger
from .notice import announce, send
from .refund import Refund, parse
from .settings import Settings, refunds_of, settings
from .web import ask

#: At most this number of merchants and notices at the same time.
CONCURRENCY = 4


class Cashier:
    """Has the bank pay refunds, enters them into the ledger, and tells the customers."""

    def __init__(self, known: Settings, name: str, queue: Queue) -> None:
        self._known = known
        self._name = name
        self._queue = queue
        self._ledger = Ledger(known.ledger)

    def work(self, job: Delivery) -> None:
        """Do one job: a refund, which has the group of its merchant, or a notice, which has none.

        What it raises has the job tried again; a refund before the next of its merchant.
        """
        if job.group is None:
            send(job, self._ledger)
        else:
            self.pay(job)

    def pay(self, job: Delivery) -> None:
        """Have one refund paid, and the customer told later."""
        refund = parse(job.payload)
        before = self._ledger.payment(refund.order)
        if before is None:
            self._ledger.write(job, refund, self._receipt(refund, job))
        elif before.refund != refund.id:
            self._ledger.write(job, refund, None)
        # Else a worker died after it had entered it, and before it could say so to the queue: here,
        # or when it acknowledged the job. So the notice is asked for in any case.
        announce(self._queue, refund.id)

    def _receipt(self, refund: Refund, job: Delivery) -> str:
        """The bank's receipt. It knows the refund by its id, so it pays once, however often it is
        asked; and by the fence it knows a worker whose job another one has by now."""
        if job.attempt > 1 and (receipt := self._earlier(refund)):
            return receipt
        order = {**refund._asdict(), "fence": job.fence, "worker": self._name}
        job.check()
        # Not longer than the lease, lest the next worker asks while the bank is still at this.
        status, answer = ask(f"{self._known.bank}/pay", order, self._known.ttl / 2)
        if status != 200:
            raise RuntimeError(f"the bank refused {refund.id}: {answer}")
        return str(answer["receipt"])

    def _earlier(self, refund: Refund) -> str | None:
        """What came of an attempt before this one, if the bank heard of it.

        A worker may have died while the bank was still paying; the queue knows that the worker is
        gone, but not that the bank is still busy for it. So this waits until it isn't.
        """
        while True:
            status, answer = ask(f"{self._known.bank}/asked", {"id": refund.id})
            if status != 202:
                return str(answer["receipt"]) if status == 200 else None
            time.sleep(0.02)


def main(name: str) -> None:
    """Work until told to stop."""
    known = settings()
    with Client(known.store, label=name) as client:
        queue = refunds_of(client, known)
        worker = queue.worker(Cashier(known, name, queue).work, concurrency=CONCURRENCY)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        worker.run()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "worker")
