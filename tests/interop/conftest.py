"""The crew: processes that are started once, and used by one test after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.crew import Crew


@pytest.fixture(scope="session")
def everybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """All clients as processes."""
    one = Crew(tmp_path_factory.mktemp("crew"))
    yield one
    one.close()


@pytest.fixture
def crew(everybody: Crew) -> Iterator[Crew]:
    """All clients as processes, none of which is busy with what another test told it."""
    yield everybody
    everybody.settle()
