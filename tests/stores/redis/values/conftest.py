"""The fixture that counts requests."""

from tests.stores.redis.test_trips import counter  # noqa: F401 # it is a fixture
