"""Processes and the server are killed under load: see ``tests/stores/sql/torture.py``."""

from tests.stores.sql.torture import *  # noqa: F403
