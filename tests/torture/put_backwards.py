"""Imported in each process of a run: from then on what is put together is put backwards."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

plant(
    [
        Edit(
            "holdfast.core.queue.queue",
            "            batch = jobs[start : start + BATCH_MAX]\n",
            "            batch = jobs[start : start + BATCH_MAX][::-1]\n",
        )
    ]
)
