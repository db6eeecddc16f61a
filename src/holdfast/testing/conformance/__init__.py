"""The conformance kit: the cases that every store must pass, on every primitive and both faces.

The author of a store runs all its cases::

    import pytest
    from holdfast.testing import conformance

    @pytest.mark.parametrize("run", conformance.runs("mystore"), ids=str)
    def test_conforms(run):
        run.on("mystore://localhost/tests")

Each case is a sentence that must be true, written once and run for threads, for asyncio, and
between processes if the store can be shared by processes. Runs use names that no other run uses,
clean up afterwards, and can be run in any order. Runs sleep most of the time, so several runs may
take place at the same time in separate threads, except runs whose ``run.case.alone`` is set. Cases
use ``assert``: don't run them with ``python -O``.
"""

from __future__ import annotations

from .arena import AT_ONCE_S, PRIMITIVES, SOON_S, Arena, Primitive, at_once, raises
from .kit import Run, all_cases, in_turn, runs
from .registry import OPERATIONS, Case, case

__all__ = [
    "AT_ONCE_S",
    "OPERATIONS",
    "PRIMITIVES",
    "SOON_S",
    "Arena",
    "Case",
    "Primitive",
    "Run",
    "all_cases",
    "at_once",
    "case",
    "in_turn",
    "raises",
    "runs",
]
