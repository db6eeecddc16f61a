"""Functions for processes that the tests of several stores start
(`holdfast.testing.faults.Subject`).
"""

from __future__ import annotations

from holdfast import Client
from holdfast.testing.faults.stage import Stage


def hold(stage: Stage, url: str, name: str, ttl: float) -> None:
    """Hold a lock and send its fence; after the next message, send whether it is still held."""
    with Client(url) as client:
        held = client.lock(name, ttl=ttl).acquire()
        stage.say(held.fence)
        stage.hear()
        stage.say(held.lost is None)
