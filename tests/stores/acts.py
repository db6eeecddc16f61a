"""What processes do that the tests of several stores start (`holdfast.testing.faults.Subject`)."""

from __future__ import annotations

from holdfast import Client
from holdfast.testing.faults.stage import Stage


def hold(stage: Stage, url: str, name: str, ttl: float) -> None:
    """Hold it, say the fence, and stay until told to go on; say whether it still holds then."""
    with Client(url) as client:
        held = client.lock(name, ttl=ttl).acquire()
        stage.say(held.fence)
        stage.hear()
        stage.say(held.lost is None)
