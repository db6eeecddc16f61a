"""Where everything is, and the numbers of the business: from the environment, as in any service."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holdfast.sync import Client, Queue


class Settings(NamedTuple):
    """What all processes of the application are told.

    ``store``: the URL of the locks and of the queue. ``ledger``: the path of the database.
    ``bank``: where the bank listens. ``interval``: seconds that the bank wants between two payments
    for one merchant. ``ttl``: seconds after which the work of a worker that died goes to another.
    """

    store: str = "sqlite:///var/lib/refunds/holdfast.db"
    ledger: str = "/var/lib/refunds/ledger.db"
    bank: str = "http://127.0.0.1:8300"
    interval: float = 0.5
    ttl: float = 30.0

    def environment(self) -> dict[str, str]:
        """The variables that say so to a process."""
        return {f"REFUNDS_{name.upper()}": str(value) for name, value in self._asdict().items()}


def settings() -> Settings:
    """What the environment says; ``REFUNDS_STORE`` and so on."""
    given = {}
    for name, usual in Settings()._asdict().items():
        if (text := os.environ.get(f"REFUNDS_{name.upper()}")) is not None:
            given[name] = type(usual)(text)
    return Settings(**given)


def refunds_of(client: Client, known: Settings) -> Queue:
    """The serial queue of refunds; a merchant is a group.

    Nodes and workers make it alike: the interval and the lease go with whoever takes. A refund
    must never be given up, so there is no last attempt.
    """
    return client.queue(
        "refunds",
        min_interval=known.interval,
        ttl=known.ttl,
        max_attempts=1_000_000,
        retry_delay=0.1,
        retry_delay_max=5.0,
    )
