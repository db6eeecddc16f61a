"""A planted bug for each process that imports this module: no queue has an interval."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

INTERVAL = '        checks.seconds("min_interval", min_interval, 0.0, INTERVAL_S_MAX),\n'
plant([Edit("holdfast.core.queue.options", INTERVAL, "        0.0,\n")])
