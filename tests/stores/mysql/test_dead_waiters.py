"""A line with many dead waiters: see ``tests/stores/dead.py``."""

from tests.stores.dead import *  # noqa: F403
