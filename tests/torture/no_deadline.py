"""A planted bug for each process that imports this module: no client checks its deadline."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

LATE = "        if self.reason is None and self.end is None and now >= self.deadline:\n"
plant([Edit("holdfast.core.lease", LATE, "        if False:\n")])
