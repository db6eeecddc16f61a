"""The wall clock of the server is set: see ``tests/stores/clock_steps.py``."""

from tests.stores.clock_steps import *  # noqa: F403
