"""Imported in each process of a run: from then on no delivery is renewed, and all are believed."""

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
