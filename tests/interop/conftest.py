"""The crew: worker processes that are started once and used by one test after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.crew import Crew


@pytest.fixture(scope="session")
def everybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """The crew of the session: one process for each client."""
    one = Crew(tmp_path_factory.mktemp("crew"))
    yield one
    one.close()


@pytest.fixture
def crew(everybody: Crew) -> Iterator[Crew]:
    """The crew of the session; after the test, processes that are still busy are replaced."""
    yield everybody
    everybody.settle()
