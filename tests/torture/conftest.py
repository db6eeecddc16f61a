"""Fixtures for all torture tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that doesn't exist yet, in a private folder."""
    return f"sqlite://{tmp_path}/locks.db"
