"""A wait ends at its time-out, also if a log line about it took long."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast import Client
from holdfast.core import waits
from holdfast.testing.conformance.struck import Overlaid


def test_a_nap_after_the_log_line_of_a_wait_uses_the_time_left_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a held name, and a clock that counts how long the request for the holder takes
    monkeypatch.setattr(waits, "LONG_S", 0.0)
    monkeypatch.setattr(logging.getLogger("holdfast"), "level", logging.INFO)
    with Client("memory://nap") as other, Client("memory://nap") as client:
        ctx = client._ctx
        inspect, wait, usual = ctx.store.inspect, ctx.store.wait, ctx.now
        late, asked = [0.0], []

        async def slow(*given: Any, **more: Any) -> Any:
            late[0] += 60.0
            return await inspect(*given, **more)

        async def noted(claim: Any, waiting: Any, seconds: float) -> Any:
            asked.append((ctx.now(), seconds))
            return await wait(claim, waiting, min(seconds, 0.01))

        with other.lock("x").acquire():
            monkeypatch.setattr(ctx, "now", lambda: usual() + late[0])
            monkeypatch.setattr(ctx, "store", Overlaid(ctx.store, inspect=slow, wait=noted))
            end = ctx.now() + 61.0
            # When a client waits for the name
            assert client.lock("x").acquire(timeout=60.5) is None
    # Then no nap is longer than the time that is left
    assert late[0] > 0
    assert all(seconds <= max(end - at, 0.01) for at, seconds in asked), asked
