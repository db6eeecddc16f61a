"""What processes do that the tests start, stop and kill (``holdfast.testing.faults.Subject``)."""

from __future__ import annotations

import time

from holdfast import Client
from holdfast.testing.faults.stage import Stage


def hold(stage: Stage, url: str, name: str, ttl: float) -> None:
    """Hold it, say the fence, and stay until told to go on."""
    with Client(url) as client, client.lock(name, ttl=ttl) as held:
        stage.say(held.fence)
        stage.hear()


def wait(stage: Stage, url: str, name: str) -> None:
    """Wait for it; say when it is there, hold it until told to go on."""
    with Client(url) as client, client.lock(name, timeout=30) as held:
        stage.say([held.fence, time.monotonic()])
        stage.hear()
