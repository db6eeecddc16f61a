"""Functions for processes that the tests start, stop and kill
(``holdfast.testing.faults.Subject``).
"""

from __future__ import annotations

import time

from holdfast import Client
from holdfast.testing.faults.stage import Stage


def over_and_over(stage: Stage, url: str, name: str, seconds: float) -> None:
    """Lock the name again and again; at the end, send the start, end and fence of each hold."""
    with Client(url) as client, client.lock(f"{name}:{time.monotonic_ns()}"):
        stage.say("ready")
        stage.hear()
        end, turns = time.monotonic() + seconds, []
        while time.monotonic() < end:
            with client.lock(name, timeout=30) as held:
                begun = time.monotonic()
                turns.append([begun, time.monotonic(), held.fence])
        stage.say(turns)
