"""Torture of refresh guards: no read returns a value older than an invalidation that came before
it."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.testing.faults import dice
from holdfast.testing.torture.guard_worker import Source
from holdfast.testing.torture.guards import Options, run
from holdfast.url import find
from tests.queue_stores import Place, open_place
from tests.torture.scale import FULL, times

#: All stores that processes can share, and that support refresh guards.
SCHEMES = [
    one
    for one in ("sqlite", "redis", "postgresql", "mysql")
    if find(f"{one}://")[0].CAPABILITIES.guards
]


@pytest.fixture(params=SCHEMES)
def place(request: pytest.FixtureRequest) -> Place:
    """A store, and the function that kills its server."""
    return open_place(request.param, request)


@pytest.mark.usual(2)
def test_no_answer_is_older_than_an_invalidation(place: Place) -> None:
    seed = dice("guards").randrange(1 << 32)
    seconds = times(60, 3)
    outcome = run(Options(place.url, seed, seconds), place.dies if FULL else None)
    print(outcome)
    outcome.demand()
    figures = outcome.verdict.figures
    assert figures["reads"] > (5 * seconds if FULL else 0)
    assert figures["changes"] > 0
    assert outcome.strikes


def test_the_source_of_the_values_counts_each_change_of_its_threads(tmp_path: Path) -> None:
    (tmp_path / "versions").write_bytes(b"")
    source = Source(tmp_path)

    def change(_: int) -> list[int]:
        return [source.change(tmp_path, 0) for _ in range(300)]

    with ThreadPoolExecutor(8) as threads:
        versions = sorted(itertools.chain.from_iterable(threads.map(change, range(8))))
    assert versions == [*range(1, 2401)]
