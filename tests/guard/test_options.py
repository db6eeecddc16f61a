"""Options of a guard: early refreshes, jitter, the local cache, codecs, wrong input."""

from __future__ import annotations

import asyncio
import math
import os
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError
from tests.guard.conftest import At, Run, Source


def test_earlier_refreshes_follow_the_formula() -> None:
    """Given a cost, then the share of early refreshes follows the formula of Vattani et al."""
    seed = int.from_bytes(os.urandom(4), "big")
    import random

    rng = random.Random(seed)
    with Client(f"memory://{os.urandom(8).hex()}") as client:
        from holdfast.core.guard.flight import Flight
        from holdfast.core.guard.model import Value
        from holdfast.core.guard.refresh import Refresh

        guard = client.guard("g", ttl=60, early=2.0)
        client._ctx.runtime.jitter = rng.random  # type: ignore[method-assign]

        async def never() -> None:
            raise AssertionError

        refresh = Refresh(guard, "", Flight(), never, 0.0)
        tries = 20_000
        for left in (0.1, 0.5, 1.0, 3.0):
            value = Value(b"", left, left, 0.5, 1)
            share = sum(refresh._due(value) for _ in range(tries)) / tries
            expected = math.exp(-left / (0.5 * 2.0))
            assert abs(share - expected) < 0.02, f"seed {seed}: {share} for {expected} at {left}"
        assert not any(refresh._due(Value(b"", 59.0, 59.0, 0.5, 1)) for _ in range(tries))
        assert refresh._due(Value(b"", -0.1, 5.0, 0.5, 1))


def test_jitter_shortens_the_time_within_its_part(run: Run) -> None:
    async def case(at: At) -> None:
        guard, source = at.guard(ttl=100, jitter=0.5), Source()
        found = []
        for number in range(40):
            await guard.get(source.compute, key=str(number))
            found.append((await guard.inspect(str(number))).fresh_in)
        assert 50 - 1 <= min(found) < 75 < max(found) <= 100

    run(case)


def test_the_layer_in_the_process_counts_from_the_sending(run: Run) -> None:
    async def case(at: At) -> None:
        guard, gate = at.gated(local_ttl=2.0)  # so that a pause of ours isn't taken for its end
        other, source = at.guard(), Source()
        await other.get(source.compute)

        async def late() -> None:
            await at.face.sleep(1.9)

        gate.after["read"] = late
        assert await guard.get(source.compute) == 0
        source.version = 1
        await other.invalidate()
        await at.face.sleep(0.12)
        assert await guard.get(source.compute) == 1

    run(case)


def test_what_was_asked_for_before_an_invalidation_stays_out_of_the_layer(run: Run) -> None:
    async def case(at: At) -> None:
        guard, gate = at.gated(local_ttl=60)
        other, source = at.guard(), Source()
        await other.get(source.compute)
        answered, go = at.held(gate)

        async def ask() -> object:
            return await guard.get(source.compute)

        early = at.start(ask)
        await answered.wait()
        source.version = 1
        await guard.invalidate()
        go.set()
        assert await early.result() == 0
        assert await guard.get(source.compute) == 1

    run(case)


def test_the_layer_in_the_process_has_a_bound(run: Run) -> None:
    async def case(at: At) -> None:
        guard, source = at.guard(local_ttl=60, local_entries_max=10), Source()
        for number in range(50):
            await guard.get(source.compute, key=str(number))
        assert len(guard._near._held) <= 10
        assert "49" in guard._near._held

    run(case)


def test_a_codec_makes_bytes_of_anything(run: Run) -> None:
    class Complex:
        def encode(self, value: complex) -> bytes:
            return f"{value.real} {value.imag}".encode()

        def decode(self, data: bytes) -> complex:
            real, imag = data.split()
            return complex(float(real), float(imag))

    async def case(at: At) -> None:
        async def compute() -> complex:
            return 1 + 2j

        guard = at.guard(codec=Complex())
        assert await guard.get(compute) == 1 + 2j
        assert await guard.get(compute) == 1 + 2j
        plain = at.guard()
        with pytest.raises(ConfigError, match="codec"):
            await plain.get(compute)
        with pytest.raises(ConfigError, match=r"value is bytes, text, or JSON data"):
            await plain.get(compute, key="another")

        class Wrong(Complex):
            def encode(self, value: complex) -> bytes:
                return "text"  # type: ignore[return-value]

        with pytest.raises(ConfigError, match=r"encode\(\) returned str"):
            await at.guard(codec=Wrong()).get(compute, key="third")

    run(case)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"ttl": 0}, "ttl"),
        ({"ttl": "1"}, "ttl"),
        ({"stale": -1}, "stale"),
        ({"timeout": -2}, "timeout"),
        ({"on_timeout": "wait"}, "'error' or 'stale' or 'compute'"),
        ({"on_store_error": "wait"}, "'error' or 'compute'"),
        ({"refresh": "later"}, "'foreground' or 'background'"),
        ({"lease": 0.001}, "lease"),
        ({"early": -1}, "early"),
        ({"jitter": 1.5}, "jitter"),
        ({"failure_ttl": -1}, "failure_ttl"),
        ({"local_ttl": -1}, "local_ttl"),
        ({"local_entries_max": 0}, "local_entries_max"),
        ({"max_bytes": 2**30}, "max_bytes"),
        ({"codec": object()}, "codec"),
    ],
)
def test_a_wrong_option_is_named(run: Run, options: dict[str, Any], words: str) -> None:
    async def case(at: At) -> None:
        with pytest.raises(ConfigError, match=words):
            at.guard(**options)

    run(case)


def test_a_wrong_key_or_compute_is_named(run: Run) -> None:
    async def case(at: At) -> None:
        guard, source = at.guard(), Source()
        with pytest.raises(ConfigError, match="key"):
            await guard.get(source.compute, key=7)
        with pytest.raises(ConfigError, match="key"):
            await guard.invalidate(7)
        with pytest.raises(ConfigError, match="name"):
            at.guard("")

    run(case)


def test_asyncio_wants_a_coroutine_function() -> None:
    """Given a plain function, then the error names the remedy, and the refresh lease is
    released.
    """

    async def main() -> None:
        async with AsyncClient(f"memory://{os.urandom(8).hex()}") as client:
            guard = client.guard("g", ttl=60, lease=3600)
            with pytest.raises(ConfigError, match="coroutine function"):
                await guard.get(lambda: 1)  # type: ignore[arg-type, return-value]
            assert await guard.get(Source().compute, timeout=5) == 0

    asyncio.run(main())


def test_a_coroutine_function_is_refused_on_the_face_for_threads() -> None:
    async def compute() -> int:
        return 1

    with Client(f"memory://{os.urandom(8).hex()}") as client:
        guard = client.guard("g", ttl=60)
        with pytest.raises(ConfigError, match="is a coroutine function; use AsyncClient"):
            _ = guard.get(compute)
