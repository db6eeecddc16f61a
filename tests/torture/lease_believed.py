"""A planted bug for each process that imports this module: deliveries aren't renewed, and their
deadlines are a minute late."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

LEASE = "holdfast.core.queue.lease"
END, RENEWING = "        self.deadline = until\n", "        self.renewing = {}\n"
plant(
    [
        Edit(LEASE, END, END.replace("until", "until + 60.0")),
        Edit(LEASE, RENEWING.format("terms.auto_renew"), RENEWING.format("False")),
    ]
)
