"""Ctrl-C at each point of a take that gets a job: the job stays available for the next take."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from holdfast import Client
from holdfast.testing.faults import Strike
from tests.servers.zookeeper import ZooKeeperServer

#: A coroutine that is interrupted before its first step is never awaited; Python warns about it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
#: The modules that handle a job which a take has got.
KNOW = tuple(f"holdfast.stores.zookeeper.queues.{part}" for part in ("idle", "loans", "taking"))


def test_a_take_that_is_interrupted_leaves_its_job_to_the_next_one(
    shared_zookeeper: ZooKeeperServer, own_name: str
) -> None:
    with Client(shared_zookeeper.url) as ours, Client(shared_zookeeper.url) as other:
        queue = ours.queue(own_name)
        queue.put(1)
        for number in itertools.count(1):
            strike = Strike(number, within=KNOW)
            with contextlib.suppress(KeyboardInterrupt), strike:
                taken = queue.take(1.0)
            if not strike.where:
                break
            found = other.queue(own_name).take(5.0)
            assert found is not None, strike.where
            found.release()
        assert taken is not None
    assert number > 50
