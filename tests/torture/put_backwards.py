"""A planted bug for each process that imports this module: jobs of one put are stored in reverse
order."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

plant(
    [
        Edit(
            "holdfast.core.queue.queue",
            "            batch = tuple(jobs[len(receipts) : len(receipts) + most])\n",
            "            batch = tuple(jobs[len(receipts) : len(receipts) + most])[::-1]\n",
        )
    ]
)
