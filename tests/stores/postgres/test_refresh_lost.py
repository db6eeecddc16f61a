"""Requests of refresh guards that are lost or cut off: see ``tests/stores/sql/refresh_lost.py``."""

from tests.stores.sql.refresh_lost import *  # noqa: F403
