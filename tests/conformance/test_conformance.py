"""Every case of the kit, on every primitive, both faces and each of holdfast's stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing.conformance import Run, runs
from tests.conformance.conftest import usual
from tests.torture.scale import FULL

STORES = (
    "memory",
    "sqlite",
    "redis",
    "redis+plain",
    "redis+timestamp",
    "redis+redisson",
    "postgresql",
    "mysql",
    "zookeeper",
)
RUNS = runs(*STORES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All runs with ``HOLDFAST_TORTURE=full`` or if the command names one, else the usual runs."""
    named = any("::test_conforms[" in one for one in metafunc.config.args)
    metafunc.parametrize("run", RUNS if FULL or named else usual(RUNS), ids=str)


def test_conforms(run: Run, ahead: Callable[[Run], None]) -> None:
    ahead(run)
