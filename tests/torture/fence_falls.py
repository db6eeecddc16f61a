"""Imported in each process of a run: from then on some fences are less than those before."""

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
