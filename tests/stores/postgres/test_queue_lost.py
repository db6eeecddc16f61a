"""Requests of queues that are lost or cut off: see ``tests/stores/sql/queue_lost.py``."""

from tests.stores.sql.queue_lost import *  # noqa: F403
