"""Each row is damaged, one at a time: see ``tests/stores/damage.py``."""

from tests.stores.damage import *  # noqa: F403
