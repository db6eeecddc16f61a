"""Long random misuse of ``with`` on both faces; the kit plays short ones on every store."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.testing.conformance.arena import Arena
from holdfast.testing.conformance.misuse import Walk
from holdfast.testing.faces import FACES
from tests.torture.scale import seed_of, times

STEPS = 40
WALKS = times(300, 6)


@pytest.mark.usual(8)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("primitive", ["lock", "semaphore", "read", "write", "election", "all"])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_no_end_of_a_with_frees_what_another_statement_holds(
    store: str, face: str, primitive: str, tmp_path: Path
) -> None:
    url = "memory://misuse-of-with" if store == "memory" else f"sqlite://{tmp_path}/l.db"
    first = seed_of("misuse of with")

    async def main(seed: int) -> None:
        at = Arena(url, FACES[face], primitive, "misuse")
        try:
            await Walk(at, random.Random(seed), STEPS).run()
            assert await at.left_behind() == []
        except AssertionError as failure:
            failure.add_note(f"seed {seed}")
            raise
        finally:
            await at.close()

    for number in range(WALKS):
        seed = first + number
        FACES[face].run(lambda seed=seed: main(seed), 60)  # type: ignore[misc]
