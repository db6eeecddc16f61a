"""The server of queues in virtual time; ``test_simulator.py`` plays their histories."""

from __future__ import annotations

from holdfast.core.queue.model import Job, Pace, Patience, Put, Settle, Take, Verdict
from holdfast.testing.simulator.queues.server import QueueServer
from holdfast.testing.simulator.world import World


def test_a_group_that_came_back_outlives_what_is_left_of_its_first_life() -> None:
    """When the clock is set back, a group that rests for 9 s rests for at most 8 s.

    If the group is forgotten after that and comes back, the old end of 9 s has no effect on it.
    """
    server = QueueServer(World(0), 6.0)
    queue, pace = server.queue("q"), Pace(9.0)

    def put(number: int, now: float) -> None:
        assert queue.put(Put("q", "lane", number, (Job(str(number), "g", b""),), 60.0), now)

    put(1, 0.0)
    take = Take("q", "t", 1, 6.0, "owner", pace, Patience())
    (given,) = queue.take(take, 0.0).deliveries
    assert queue.settle(Settle("q", "g", given.seq, "t", Verdict.ACK), 0.0)
    assert queue.tracks["g"].due == 9.0
    server.clamp(0.0)
    assert queue.tracks["g"].due == 8.0
    # Another execution immediately: now two ends of a rest are stored, and the later one is
    # outdated
    put(2, 8.0)
    (given,) = queue.take(take._replace(id="u", pace=Pace()), 8.0).deliveries
    assert queue.settle(Settle("q", "g", given.seq, "u", Verdict.ACK), 8.0)
    put(3, 8.5)
    put(4, 9.5)
    assert [row.job.id for row in queue.tracks["g"].rows] == ["3", "4"]
