"""A fence that is advanced outside a transaction protects nothing, so it is refused."""

from __future__ import annotations

import pytest

from holdfast import ConfigError
from holdfast.fenced import SqlFence

from .database import Database


def test_a_fence_isnt_advanced_in_autocommit(database: Database, own_name: str) -> None:
    fence = SqlFence(f"fences_{own_name.replace('-', '_')}")
    with database.open() as one:
        fence.create(one)
        one.commit()
        # Given a name that is known, and a new name
        assert fence.advance(one, "known", 1) == 1
        one.commit()
    with database.open(autocommit=True) as one:
        for name, number in (("known", 2), ("new", 1)):
            with pytest.raises(ConfigError, match="outside a transaction"):
                fence.advance(one, name, number)
            # And nothing was advanced
            assert fence.fence(one, name) == number - 1
    with database.open() as one:
        assert fence.advance(one, "known", 3) == 3
        one.commit()
