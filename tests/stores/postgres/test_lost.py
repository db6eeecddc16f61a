"""Requests and replies that are lost, late or cut off: see ``tests/stores/lost.py``."""

from __future__ import annotations

import pytest

from tests.stores.lost import Words
from tests.stores.postgres.conftest import Bench
from tests.stores.sql.lost import *  # noqa: F403


@pytest.fixture
def words(bench: Bench) -> Words:
    verbs = ("join", "leave", "renew", "stand", "join_free", "leave_all")
    join, leave, renew, stand, join_free, leave_all = map(bench.word, verbs)
    return Words(join, leave, renew, stand, (stand,), join_free, leave_all)
