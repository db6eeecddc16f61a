"""Functions for processes that the tests of several stores start
(`holdfast.testing.faults.Subject`).
"""

from __future__ import annotations

import time

from holdfast import Client
from holdfast.testing.faults.stage import Stage


def takes_turns(stage: Stage, url: str, name: str, seconds: float, inside: float) -> None:
    """Lock the name again and again; send the fence, the start and the end of each turn."""
    turns = []
    with Client(url) as client:
        client.lock(f"{name}:warm", timeout=20).acquire().release()
        stage.say("ready")
        stage.hear()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with client.lock(name, timeout=30) as hold:
                begun = time.monotonic()
                time.sleep(inside)
                turns.append([hold.fence, begun, time.monotonic()])
    stage.say(turns)
