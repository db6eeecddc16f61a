"""The memory store forgets names that no client uses."""

from __future__ import annotations

from holdfast import Client
from holdfast.stores.memory.blocking import space
from holdfast.stores.memory.jobs import LIFE_S

NAMES = 200


def test_names_of_unused_queues_are_forgotten() -> None:
    with Client("memory://forgets-names-of-queues") as client:
        # Given many queues whose jobs were put and settled
        for number in range(NAMES):
            queue = client.queue(f"q{number}")
            queue.put("a")
            with queue.take(timeout=0):
                pass
        names = space("forgets-names-of-queues")
        assert len(names.queue_names()) == NAMES
        # When no client uses them until they can be forgotten, and other queues are used
        names.skew += 2 * LIFE_S
        for number in range(NAMES):
            client.queue(f"r{number}").put("a")
        # Then only the other queues are there
        assert {*names.queue_names()} == {f"r{number}" for number in range(NAMES)}
