"""Imported in each process of a run: from then on what is put together is put backwards."""

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
