"""The kit's cases of guards, played again with the values in an external cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.conformance import Run, runs
from tests.ahead import Ahead, asked
from tests.caches.conftest import Shelf

#: Runs at the same time: most of their time they sleep.
AT_ONCE = 24
RUNS = [run for run in runs("memory") if run.primitive == "guard"]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Callable[[Run], None]]:
    """Play a run, started ahead with the others; every guard uses one external cache."""
    shelf = Shelf()

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda client, name, **options: real(client, name, **{"cache": shelf, **options})

    chosen = asked(request, "test_conforms_with_its_values_elsewhere", "run")
    with pytest.MonkeyPatch.context() as patched:
        for client in (Client, AsyncClient):
            patched.setattr(client, "guard", before(client.guard))
        with Ahead(lambda run: run.on("memory://elsewhere"), chosen, AT_ONCE) as ahead:
            yield lambda run: ahead[run]
    assert {"get", "set"} <= set(shelf.asked)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_conforms_with_its_values_elsewhere(run: Run, played: Callable[[Run], None]) -> None:
    played(run)
