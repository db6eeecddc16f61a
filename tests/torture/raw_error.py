"""A planted bug for each process that imports this module: some grants raise an error that isn't
one of holdfast."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

plant(
    [
        Edit(
            "holdfast.stores.sqlite.blocking.engine",
            "                answer = Held(ticket, ttl)\n",
            "                answer = Held(ticket, ttl if ticket % 20 else 1 // 0)\n",
        )
    ]
)
