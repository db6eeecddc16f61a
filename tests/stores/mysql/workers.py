"""Functions for processes that the tests start (``holdfast.testing.faults.Subject``)."""

from __future__ import annotations

import json
import time
from typing import Any

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


def works(stage: Stage, url: str, name: str, file: str) -> None:
    """Work on a queue until the process is killed.

    Before the ack of each job, write its number, its fence, its start and its end.
    """
    with Client(url) as client, open(file, "a", buffering=1) as log:

        def handle(job: Any) -> None:
            begun = time.monotonic()
            time.sleep(0.002)
            log.write(json.dumps([job.payload, job.fence, begun, time.monotonic()]) + "\n")

        client.queue(name, ttl=3.0, retry_delay=0, retry_delay_max=0).worker(
            handle, concurrency=2
        ).run()
