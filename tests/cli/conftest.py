"""A separate store for each test, with the command ``holdfast`` on the path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.across import Here
from tests.cli.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A private store; processes that the test started are killed after it."""
    made = World(tmp_path)
    yield made
    made.end()


@pytest.fixture
def here(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setenv("HOLDFAST_URL", world.url)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    return Here(world, capsys)
