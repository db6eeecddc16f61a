"""A planted bug for each process that imports this module: some grants raise an error that isn't
one of holdfast."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

HELD = "                answer = Held(ticket, {})\n"
WRONG = HELD.format("ttl if ticket % 20 else 1 // 0")
plant([Edit("holdfast.stores.sqlite.blocking.engine", HELD.format("ttl"), WRONG)])
