"""Compare a store with a model: both get the same random verbs, and must give the same answers.

The model is ``stores/memory/line.py``, which defines the meaning of the verbs. If a lease expires
soon, the next verb is sent after the expiry, because a verb at the moment of the expiry could have
two right answers. Tickets are compared by their order. Durations may differ by the time that a verb
took::

    from holdfast.testing import differential

    differential.check("sqlite:///tmp/locks.db", steps=3000)

A difference names the seed, the step, and the verbs that led to it; ``check(..., seed=...)``
repeats the same walk.
"""

from __future__ import annotations

import asyncio
import random

from ...core.ports import Runtime, Store
from ...runtime.aio import AioRuntime
from ...runtime.blocking import BlockingRuntime, run_sync
from ...url import find
from .known import Difference
from .pair import Pair
from .walk import Summary, Walk

__all__ = ["Difference", "Pair", "Summary", "Walk", "check"]


def check(url: str, *, face: str = "sync", seed: int | None = None, steps: int = 2000) -> Summary:
    """Compare the store at this URL with the model, on one face; print the seed.

    Raises ``Difference`` (an ``AssertionError``) at the first answer that differs from the model's.
    """
    chance = random.SystemRandom()
    chosen = chance.getrandbits(32) if seed is None else seed
    print(f"differential: {face}, seed={chosen}, steps={steps}")
    module, parsed = find(url)
    names = f"differential:{chosen:x}:{chance.getrandbits(32):x}:"

    async def go(store: Store, runtime: Runtime) -> Summary:
        try:
            return await Walk(Pair(store, runtime, chosen, names)).go(steps)
        finally:
            await store.close()

    async def on_a_loop() -> Summary:
        return await go(module.open_aio(parsed), AioRuntime())

    if face == "aio":
        return asyncio.run(on_a_loop())
    return run_sync(go(module.open_blocking(parsed), BlockingRuntime()))
