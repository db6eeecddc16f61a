"""Imported in each process of a run: from then on no client looks at its deadline."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

plant(
    [
        Edit(
            "holdfast.core.lease",
            "        if self.reason is None and self.end is None and now >= self.deadline:\n",
            "        if False:\n",
        )
    ]
)
