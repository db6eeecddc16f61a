"""What tests of the core share: two clients of a store of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from holdfast import Client


@pytest.fixture
def space() -> str:
    """The URL of a store of this test's own."""
    return f"memory://{os.urandom(8).hex()}"


@pytest.fixture
def two(space: str) -> Iterator[tuple[Client, Client]]:
    """Two clients of it."""
    with Client(space) as one, Client(space) as other:
        yield one, other
