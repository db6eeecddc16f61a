"""A planted bug for each process that imports this module: some fences are lower than earlier
ones."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

HELD = "                answer = Held({}, ttl)\n"
WRONG = HELD.format("ticket - 50 * (ticket % 3 == 0)")
plant([Edit("holdfast.stores.sqlite.blocking.engine", HELD.format("ticket"), WRONG)])
