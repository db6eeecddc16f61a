"""Whoever dies or stands still: see ``tests/stores/deaths.py``."""

from tests.stores.deaths import *  # noqa: F403
