"""A worker: takes refunds, one at a time per merchant, and requests the payments from the bank.

It also sends the notices of settled refunds, in any order. Any number of workers can run:
``python -m refunds.worker``. After SIGTERM a worker completes its jobs. After ``kill -9`` its lease
ends, and another worker gets the same refund. So each step can happen twice, and is written so
that the second time changes nothing.
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

#: Maximum number of jobs (refunds of different merchants, and notices) at the same time.
CONCURRENCY = 4


class Cashier:
    """Requests payments from the bank, enters the results, and puts and sends notices."""

    def __init__(self, known: Settings, name: str, queue: Queue) -> None:
        self._known = known
        self._name = name
        self._queue = queue
        self._ledger = Ledger(known.ledger)

    def work(self, job: Delivery) -> None:
        """Do one job: a refund, whose group is its merchant, or a notice, which is ungrouped.

        After an exception the job is retried; a refund is retried before the next one of its
        merchant.
        """
        if job.group is None:
            send(job, self._ledger)
        else:
            self.pay(job)

    def pay(self, job: Delivery) -> None:
        """Pay one refund, and put the job of its notice."""
        refund = parse(job.payload)
        before = self._ledger.payment(refund.order)
        if before is None:
            self._ledger.write(job, refund, self._receipt(refund, job))
        elif before.refund != refund.id:
            self._ledger.write(job, refund, None)
        # Otherwise a worker died after it had entered this refund: before it put the notice, or
        # before it acknowledged the job. So the notice is put in any case.
        announce(self._queue, refund.id)

    def _receipt(self, refund: Refund, job: Delivery) -> str:
        """Request the payment; return the bank's receipt.

        By the id, the bank recognises a repeated request and pays only once. By the fence, it
        refuses a worker whose job was delivered to another worker."""
        if job.attempt > 1 and (receipt := self._earlier(refund)):
            return receipt
        order = {**refund._asdict(), "fence": job.fence, "worker": self._name}
        job.check()
        # Shorter than the lease, because a longer call could overlap with that of the next worker.
        status, answer = ask(f"{self._known.bank}/pay", order, self._known.ttl / 2)
        if status != 200:
            raise RuntimeError(f"the bank refused {refund.id}: {answer}")
        return str(answer["receipt"])

    def _earlier(self, refund: Refund) -> str | None:
        """Return the receipt of an earlier attempt; None if the bank got no request for it.

        The worker of that attempt can have died during the payment. Then the payment can still run,
        which the queue can't know. So this waits for the end of the payment.
        """
        while True:
            status, answer = ask(f"{self._known.bank}/asked", {"id": refund.id})
            if status != 202:
                return str(answer["receipt"]) if status == 200 else None
            time.sleep(0.02)


def main(name: str) -> None:
    """Run the worker until SIGTERM arrives."""
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
