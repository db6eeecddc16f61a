"""Every case of the kit, on every primitive, both faces and each of our stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing.conformance import Run, runs

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


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_conforms(run: Run, ahead: Callable[[Run], None]) -> None:
    ahead(run)
