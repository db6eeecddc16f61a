"""Histories of the simulator, and examples of docstrings, as tests that judge bugs made by rule."""

from __future__ import annotations

import doctest
import importlib
import logging
import warnings

import pytest

from holdfast.testing.simulator import KINDS

from .executed import CORE, SOURCE

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


@pytest.mark.parametrize(
    "module",
    [
        ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for one in CORE
        for file in sorted((SOURCE / one).rglob("*.py"))
        if ">>> " in file.read_text("utf-8")
    ],
)
def test_examples(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
