"""A process that enters a line thousands of times, and is then killed."""

from __future__ import annotations

import secrets
import sys

import holdfast.core.policy
from holdfast.core.model import Claim, Kind, Spec, Waiting
from holdfast.testing.faults.stage import Stage


def waiter(name: str, ttl: float = 60.0) -> Claim:
    """A new claim to a lock."""
    return Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, ttl, "somebody", ""))


def stores_copied() -> bool:
    """Return whether a module of a store with its own copy of PATIENCE_S is imported."""
    return any("PATIENCE_S" in vars(m) for n, m in sys.modules.items() if ".stores." in n)


def crowd(stage: Stage, url: str, name: str, patience: float) -> None:
    """Enter the line as many times as each message demands, and report the total after each.

    Each waiter keeps its place for ``patience`` seconds without renewal. Start this function with
    ``Subject(..., first="tests.faults.masses")``, because a forked process has imported the stores.
    """
    assert not stores_copied(), "a store has copied PATIENCE_S already; give first= to Subject"
    holdfast.core.policy.PATIENCE_S = patience
    from holdfast import Client
    from holdfast.runtime.blocking import run_sync

    with Client(url) as client:
        store, count = client._ctx.store, 0
        while (more := stage.hear()) is not None:
            for _ in range(more):
                answer = run_sync(store.join(waiter(name), True, 10.0))
                assert isinstance(answer, Waiting), answer
            count += more
            stage.say(count)
