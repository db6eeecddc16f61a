"""A world for each test: a store of its own, and the command ``holdfast`` on the path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A private store; whatever a test started is gone after it."""
    made = World(tmp_path)
    yield made
    made.end()
