"""A verb of the memory store that was interrupted leaves a state that the next verb repairs."""

from __future__ import annotations

import pytest

from holdfast import Client
from holdfast.core.model import Claim, Held, Kind, Leave, Spec, Waiting
from holdfast.stores.memory.blocking import Space
from holdfast.stores.memory.blocking import space as at
from holdfast.stores.memory.jobs import Queue
from holdfast.stores.memory.line import Lines

SPEC = Spec("x", Kind.LOCK, 1, 1, 60.0, "me")
FIRST, SECOND = Claim("1" * 32, SPEC), Claim("2" * 32, SPEC)


def join(space: Space, claim: Claim) -> object:
    return space.call(lambda lines, now: lines.join(claim, True, now))[0]


def leave(space: Space, claim: Claim, ticket: int) -> bool:
    request = Leave("x", claim.id, ticket, 0.0, False, 60.0)
    return space.call(lambda lines, now: lines.leave(request, now))[0]


def test_a_grant_that_was_interrupted_is_finished() -> None:
    space = Space()
    granted, waits = join(space, FIRST), join(space, SECOND)
    assert isinstance(granted, Held)
    assert isinstance(waits, Waiting)
    assert leave(space, FIRST, granted.fence)  # this grants the second claim

    def interrupted(lines: Lines, now: float) -> None:
        line = lines.lines["x"]
        line.held[SECOND.id].held, line.used = False, 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        space.call(interrupted)
    assert isinstance(join(space, SECOND), Held)
    assert isinstance(join(space, FIRST), Waiting)
    assert leave(space, SECOND, waits.ticket)
    assert isinstance(join(space, FIRST), Held)


def test_jobs_are_due_again_after_an_interrupt_of_their_queue(space: str) -> None:
    def interrupted(queue: Queue, now: float) -> None:
        queue.order = ([], [])
        raise KeyboardInterrupt

    with Client(space) as client:
        queue = client.queue("q")
        queue.put("alone")
        queue.put("first", group="g")
        with pytest.raises(KeyboardInterrupt):
            at(space.removeprefix("memory://")).queue("q", interrupted)
        jobs = queue.take_many(2, timeout=0)
        assert {job.payload for job in jobs} == {"alone", "first"}
        queue.ack_many(jobs)
