"""Requests that are lost, late or cut off: see ``tests/stores/sql/lost.py``."""

from tests.stores.sql.lost import *  # noqa: F403
