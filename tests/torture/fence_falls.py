"""A planted bug for each process that imports this module: some fences are lower than earlier
ones."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

plant(
    [
        Edit(
            "holdfast.stores.sqlite.blocking.engine",
            "                answer = Held(ticket, ttl)\n",
            "                answer = Held(ticket - 50 * (ticket % 3 == 0), ttl)\n",
        )
    ]
)
