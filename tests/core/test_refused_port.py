"""The error for a server that isn't there, with its cause."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from holdfast import StoreUnavailable
from holdfast.testing.faces import FACES
from tests.servers.process import free_port

PLACES = [
    "postgresql://u@127.0.0.1:{port}/d",
    "mysql://u@127.0.0.1:{port}/d",
    "redis://127.0.0.1:{port}",
    "redis+cluster://127.0.0.1:{port}",
    "zookeeper://127.0.0.1:{port}",
]


def behind(error: BaseException | None) -> Iterator[BaseException]:
    """Return this error, its causes and all errors that were handled when it was raised."""
    if error is not None:
        yield error
        yield from behind(error.__cause__)
        if error.__context__ is not error.__cause__:
            yield from behind(error.__context__)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place).partition(":")[0])
def test_the_traceback_of_a_refused_port_has_two_parts_at_most(place: str, face: str) -> None:
    async def attempt() -> None:
        async with FACES[face].client(place.format(port=free_port())) as client:
            await client.lock("a").acquire(timeout=0)

    # When a client tries to acquire a lock at a port where no server listens
    with pytest.raises(StoreUnavailable) as refused:
        FACES[face].run(attempt, 60)
    # Then the traceback shows the error and its cause, and no IndexError of a connection pool
    shown = "".join(traceback.format_exception(refused.value))
    assert shown.count("Traceback") <= 2, shown
    assert not [one for one in behind(refused.value) if isinstance(one, IndexError)]
