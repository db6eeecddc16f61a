"""Options of a guard: early refreshes, jitter, the local cache, codecs, wrong functions."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from holdfast import ConfigError
from holdfast.core.guard.flight import Flight
from holdfast.core.guard.model import Value
from holdfast.core.guard.refresh import Refresh
from tests.faced import At


async def test_earlier_refreshes_follow_the_formula(sync: At) -> None:
    """The share of early refreshes follows the formula of Vattani et al."""
    seed, tries = random.randrange(1 << 32), 20_000
    guard = sync.guard(early=2.0)._thing
    guard._ctx.runtime.jitter = random.Random(seed).random
    refresh = Refresh(guard, "", Flight(), sync.source.compute, 0.0)

    def share(fresh_in: float, stale_in: float) -> float:
        value = Value(b"", fresh_in, stale_in, 0.5, 1)
        return sum(refresh._due(value) for _ in range(tries)) / tries

    for left in (0.1, 0.5, 1.0, 3.0):
        found, expected = share(left, left), math.exp(-left / (0.5 * 2.0))
        assert abs(found - expected) < 0.02, f"seed {seed}: {found} for {expected} at {left}"
    assert share(59.0, 59.0) == 0
    assert share(-0.1, 5.0) == 1


async def test_jitter_shortens_the_time_within_its_part(at: At) -> None:
    guard = at.guard(ttl=100, jitter=0.5)
    found = []
    for number in range(40):
        await guard.get(at.source.compute, key=str(number))
        found.append((await guard.inspect(str(number))).fresh_in)
    assert 50 - 1 <= min(found) < 75 < max(found) <= 100


async def test_the_layer_in_the_process_counts_from_the_sending(at: At) -> None:
    guard, gate = at.gated(local_ttl=2.0)  # so that a pause of ours isn't taken for its end
    other, source = at.guard(), at.source
    await other.get(source.compute)

    async def late() -> None:
        await at.face.sleep(1.9)

    gate.after["read"] = late
    assert await guard.get(source.compute) == 0
    source.version = 1
    await other.invalidate()
    await at.face.sleep(0.12)
    assert await guard.get(source.compute) == 1


async def test_what_was_asked_for_before_an_invalidation_stays_out_of_the_layer(at: At) -> None:
    guard, gate = at.gated(local_ttl=60)
    source = at.source
    await at.guard().get(source.compute)
    answered, go = at.held(gate)
    early = at.start(guard.get, source.compute)
    await answered.wait()
    source.version = 1
    await guard.invalidate()
    go.set()
    assert await early.result() == 0
    assert await guard.get(source.compute) == 1


async def test_the_layer_in_the_process_has_a_bound(at: At) -> None:
    guard = at.guard(local_ttl=60, local_entries_max=10)
    for number in range(50):
        await guard.get(at.source.compute, key=str(number))
    assert len(guard._near._held) <= 10
    assert "49" in guard._near._held


async def test_a_codec_makes_bytes_of_anything(at: At) -> None:
    class Complex:
        def encode(self, value: complex) -> bytes:
            return f"{value.real} {value.imag}".encode()

        def decode(self, data: bytes) -> complex:
            return complex(*map(float, data.split()))

    class Wrong(Complex):
        def encode(self, value: complex) -> Any:
            return "text"

    async def compute() -> complex:
        return 1 + 2j

    guard = at.guard(codec=Complex())
    assert await guard.get(compute) == await guard.get(compute) == 1 + 2j
    with pytest.raises(ConfigError, match="codec"):
        await at.guard().get(compute)
    with pytest.raises(ConfigError, match=r"value is bytes, text, or JSON data"):
        await at.guard().get(compute, key="another")
    with pytest.raises(ConfigError, match=r"encode\(\) returned str"):
        await at.guard(codec=Wrong()).get(compute, key="third")


async def test_asyncio_wants_a_coroutine_function(aio: At) -> None:
    with pytest.raises(ConfigError, match="coroutine function"):
        await aio.guard(lease=3600).get(lambda: 1)
    assert await aio.guard().get(aio.source.compute, timeout=5) == 0


async def test_a_coroutine_function_is_refused_on_the_face_for_threads(sync: At) -> None:
    with pytest.raises(ConfigError, match="is a coroutine function; use AsyncClient"):
        sync.guard()._thing.get(sync.source.compute)
