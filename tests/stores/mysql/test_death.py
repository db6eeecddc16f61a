"""A holder that dies or stops: see ``tests/stores/deaths.py``."""

from tests.stores.deaths import *  # noqa: F403
