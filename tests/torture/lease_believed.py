"""A planted bug for each process that imports this module: deliveries aren't renewed, and their
deadlines are a minute late."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

LEASE = "holdfast.core.queue.lease"

plant(
    [
        Edit(LEASE, "        self.deadline = until\n", "        self.deadline = until + 60.0\n"),
        Edit(
            LEASE, "        self.renewing = terms.auto_renew\n", "        self.renewing = False\n"
        ),
    ]
)
