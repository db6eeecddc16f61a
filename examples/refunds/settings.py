"""The settings of all processes, from environment variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holdfast.sync import Client, Queue


class Settings(NamedTuple):
    """The settings of all processes of the application.

    ``store``: the URL of the store with the locks and the queue. ``ledger``: the path of the
    database. ``bank``: the URL of the bank. ``interval``: minimum seconds between two payments for
    one merchant, which the bank requires. ``ttl``: seconds after which the job of a dead worker is
    delivered to another worker.
    """

    store: str = "sqlite:///var/lib/refunds/holdfast.db"
    ledger: str = "/var/lib/refunds/ledger.db"
    bank: str = "http://127.0.0.1:8300"
    interval: float = 0.5
    ttl: float = 30.0

    def environment(self) -> dict[str, str]:
        """Return the environment variables that contain these settings."""
        return {f"REFUNDS_{name.upper()}": str(value) for name, value in self._asdict().items()}


def settings() -> Settings:
    """Return the settings from the environment: ``REFUNDS_STORE`` and so on."""
    given = {}
    for name, usual in Settings()._asdict().items():
        if (text := os.environ.get(f"REFUNDS_{name.upper()}")) is not None:
            given[name] = type(usual)(text)
    return Settings(**given)


def refunds_of(client: Client, known: Settings) -> Queue:
    """Return the serial queue of refunds; each merchant is a group.

    Nodes and workers use the same options; only those of a worker that takes jobs have an effect. A
    refund must never become a dead letter, so the number of attempts is practically unlimited.
    """
    return client.queue(
        "refunds",
        min_interval=known.interval,
        ttl=known.ttl,
        max_attempts=1_000_000,
        retry_delay=0.1,
        retry_delay_max=5.0,
    )
