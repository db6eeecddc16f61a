"""The clock of the server is set back: see ``tests/stores/clock_steps.py``."""

from __future__ import annotations

from tests.stores.clock_steps import test_a_clock_that_is_set_back
from tests.stores.postgres.test_clock_steps import clocked

__all__ = ["clocked", "test_a_clock_that_is_set_back"]
