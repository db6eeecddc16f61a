"""Ctrl-C at each step of a take that has got its job: the job is there for the next one."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

import pytest

from holdfast import Client
from holdfast.stores.zookeeper.queues import idle, loans, taking
from tests.servers.zookeeper import ZooKeeperServer

#: What is interrupted before its first step was never awaited, and the collector says so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PARTS = {one.__file__ for one in (idle, loans, taking)}
#: What knows of the job by then, and what stops waiting.
KNOW = {"digest", "_got", "_loan", "add", "unlisten"}


def struck(step: int) -> Any:
    """A tracer that strikes at this step of what knows."""
    left = step

    def strike(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        code = frame.f_code
        if code.co_filename not in PARTS or code.co_name not in KNOW:
            return strike
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return strike

    return strike


def test_a_take_that_is_interrupted_leaves_its_job_to_the_next_one(
    shared_zookeeper: ZooKeeperServer, own_name: str
) -> None:
    with Client(shared_zookeeper.url) as ours, Client(shared_zookeeper.url) as other:
        queue = ours.queue(own_name)
        queue.put(1)
        for step in itertools.count():
            before, job = sys.gettrace(), None
            sys.settrace(struck(step))
            try:
                job = queue.take(1.0)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            if job is not None:
                break
            found = other.queue(own_name).take(5.0)
            assert found is not None, f"after an interrupt at step {step}"
            found.give_back()
    assert step > 100
