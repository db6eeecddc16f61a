"""The histories of the simulator that judge bugs made by rule, as tests."""

from __future__ import annotations

import logging
import warnings

import pytest

from holdfast.testing.simulator import KINDS

#: Number of histories of each kind.
HISTORIES = {"locks": 100, "queues": 100, "guards": 60}


@pytest.mark.parametrize(
    "kind, seed", [(kind, seed) for kind, number in HISTORIES.items() for seed in range(number)]
)
def test_history(kind: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "holdfast")
    warnings.simplefilter("ignore")
    found = KINDS[kind].check(seed).violation
    assert found is None, found.invariant
