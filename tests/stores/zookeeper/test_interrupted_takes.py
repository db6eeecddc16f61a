"""Ctrl-C at each step of a take that has got its job: the job is there for the next one."""

from __future__ import annotations

import itertools
from functools import partial
from types import FrameType

import pytest

from holdfast import Client
from holdfast.stores.zookeeper.queues import idle, loans, taking
from tests.servers.zookeeper import ZooKeeperServer
from tests.strike import interrupted

#: What is interrupted before its first step was never awaited, and the collector says so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PARTS = {one.__file__ for one in (idle, loans, taking)}
#: What knows of the job by then, and what stops waiting.
KNOW = {"digest", "_got", "_loan", "add", "unlisten"}


def knows(frame: FrameType) -> bool:
    return frame.f_code.co_filename in PARTS and frame.f_code.co_name in KNOW


def test_a_take_that_is_interrupted_leaves_its_job_to_the_next_one(
    shared_zookeeper: ZooKeeperServer, own_name: str
) -> None:
    with Client(shared_zookeeper.url) as ours, Client(shared_zookeeper.url) as other:
        queue = ours.queue(own_name)
        queue.put(1)
        for step in itertools.count():
            if not interrupted(partial(queue.take, 1.0), step, knows):
                break
            found = other.queue(own_name).take(5.0)
            assert found is not None, f"after an interrupt at step {step}"
            found.give_back()
    assert step > 100
