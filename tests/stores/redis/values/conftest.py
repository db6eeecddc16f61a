"""The fixtures of the Redis store, for the tests of its refresh guards."""

from tests.stores.redis.conftest import (  # noqa: F401 # they are fixtures
    by_proxy,
    locks,
    new_client,
    other,
    proxy,
    verbs,
)
