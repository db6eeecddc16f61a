"""A planted bug for each process that imports this module: jobs of one put are stored in reverse
order."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

BATCH = "            batch = tuple(jobs[len(receipts) : len(receipts) + most])"
plant([Edit("holdfast.core.queue.queue", f"{BATCH}\n", f"{BATCH}[::-1]\n")])
