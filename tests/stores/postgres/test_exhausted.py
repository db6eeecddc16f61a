"""No connection is left (``max_connections``): see ``tests/stores/exhausted.py``."""

from tests.stores.exhausted import *  # noqa: F403
