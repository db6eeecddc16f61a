"""Random walks over the verbs of serial queues, on each store with queues and on both its ports."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from holdfast.runtime.blocking import run_sync
from holdfast.testing.differential.queues import QueueWalk
from holdfast.url import find
from tests.conformance.test_conformance import STORES
from tests.torture.scale import FULL, seed_of

HERE = [one for one in STORES if find(f"{one}://")[0].CAPABILITIES.queues]
WALKS, STEPS = (40, 300) if FULL else (4, 80)


@pytest.mark.usual(5)
@pytest.mark.parametrize("face", ["sync", "aio"])
@pytest.mark.parametrize("store", HERE)
def test_each_answer_fits_what_was_done_before(store: str, face: str, urls: dict[str, str]) -> None:
    module, url = find(urls[store])
    # Separate seeds for each face, since two walks with one seed put by the same producer
    chance = random.Random(f"{seed_of('walks over queues')} {store} {face}")
    seeds = [chance.randrange(2**32) for _ in range(WALKS)]

    async def walks() -> None:
        for seed in seeds:  # each with a new client, which has no state yet
            opened = (module.open_aio if face == "aio" else module.open_blocking)(url)
            walk = QueueWalk(opened.queues, f"walk:{os.urandom(6).hex()}", seed)
            try:
                await walk.run(STEPS)
            except Exception:
                print(f"seed {seed}", *walk.story, sep="\n")
                raise
            finally:
                await opened.close()

    asyncio.run(walks()) if face == "aio" else run_sync(walks())
