"""Functions for processes that are killed in a trap, or that have a wrong clock."""

from __future__ import annotations

import redis

from holdfast import Client
from holdfast.testing.faults.stage import Stage
from tests.traps.naive import SetThenExpire


def sets_then_expires(stage: Stage, port: int, name: str) -> None:
    """Acquire a naive lock, and report to the parent between its two commands."""

    def between() -> None:
        stage.say("between")
        stage.hear()

    with redis.Redis(port=port) as client:
        SetThenExpire(client, between).acquire(name)


def acquires(stage: Stage, url: str, name: str, ttl: float) -> None:
    """Acquire with holdfast, report the fence, and hold until the next message."""
    client = Client(url)
    with client.lock("warm up"):
        stage.say("ready")
        stage.hear()
    with client.lock(name, ttl=ttl) as hold:
        stage.say(hold.fence)
        stage.hear()


def tries(stage: Stage, url: str, name: str) -> None:
    """Try once for each message; report the fence, or None if another client holds."""
    with Client(url) as client:
        while stage.hear() is not None:
            hold = client.lock(name).acquire(blocking=False)
            stage.say(hold.fence if hold else None)
            if hold:
                hold.release()
