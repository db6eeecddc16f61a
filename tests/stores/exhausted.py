"""A server has no free connection at any step of any verb: a clear error, and then everything
works.

A store's module imports these tests. It has the fixture ``crowded``: the URL of a server with few
connections, and a crowd that takes all of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from holdfast import Client, HoldfastError, StoreUnavailable
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Step, aim
from tests.faults.limits import NEEDS, STEPS_MAX, WORKS, compute
from tests.torture.scale import times

#: Duration of the shortage, seconds.
LACK_S = 0.15
#: Maximum seconds of a test.
LONG_S = 100.0
#: Distance between two steps at which the connections run out. A usual run tries every eighth step.
STRIDE = times(1, 8)
#: Minimum number of steps at which the connections ran out.
STRUCK_MIN = times(5, 2)


async def settled(queue: Any, guard: Any) -> None:
    """Take some jobs, and ack them."""
    for job in await queue.take_many(3, timeout=0):
        await job.ack()


#: The verbs of queues and guards; the connections run out before each of them is sent.
OTHERS: tuple[tuple[str, Callable[[Any, Any], Awaitable[object]]], ...] = (
    ("put", lambda queue, guard: queue.put("x", group="g")),
    ("take", lambda queue, guard: queue.take(timeout=0)),
    ("jobs", lambda queue, guard: queue.jobs()),
    ("settle", settled),
    ("get", lambda queue, guard: guard.get(compute)),
    ("invalidate", lambda queue, guard: guard.invalidate()),
    ("look", lambda queue, guard: guard.inspect()),
)


class Crowd(NamedTuple):
    """Takes all free connections of a server, and ends those of the clients under test.

    ``connect`` opens a connection as any user can. ``full`` is the error that it raises if there is
    none. ``kick`` ends the connections of the clients under test.
    """

    connect: Callable[[], Any]
    full: type[Exception]
    kick: Callable[[], object]

    @contextlib.contextmanager
    def there(self) -> Iterator[None]:
        """Use up all connections while the block runs; the clients have lost theirs."""
        with contextlib.ExitStack() as ends:
            self.kick()
            taken = 0
            with contextlib.suppress(self.full):
                while taken < 400:
                    ends.enter_context(contextlib.closing(self.connect()))
                    taken += 1
            assert 0 < taken < 400, "the server has no limit"
            yield


class Crowded(NamedTuple):
    """A server with few connections."""

    url: str
    crowd: Crowd


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_after_there_was_none_at_any_step_of_a_lock_all_works_again(
    crowded: Crowded, face: Face
) -> None:
    assert face.run(lambda: _play(face, *crowded), LONG_S) >= STRUCK_MIN


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_after_there_was_none_at_any_verb_of_queues_and_guards_all_works_again(
    crowded: Crowded, face: Face
) -> None:
    face.run(lambda: _queues_and_guards(face, *crowded), LONG_S)


def test_the_error_names_the_exhausted_limit(crowded: Crowded) -> None:
    url, crowd = crowded
    with Client(url) as client:
        client.lock("x").acquire().release()
        said = []
        with crowd.there():
            # The last attempt of an acquire has only the rest of its time. On a busy machine this
            # is too short to receive an error message
            while len(said) < 5 and "max_connections" not in "".join(said[-1:]):
                with pytest.raises(StoreUnavailable) as caught:
                    client.lock("x").acquire(timeout=0.5)
                said.append(str(caught.value))
        assert "max_connections" in said[-1], said
        client.lock("x").acquire(timeout=10).release()


async def _play(face: Face, url: str, crowd: Crowd) -> int:
    count = 0
    other = face.client(url)
    async with other.lock("taken", ttl=60):
        for name, work in WORKS.items():
            if name in NEEDS:
                continue
            client = face.client(url)  # what each failure leaves behind adds up
            for number in range(1 + count % STRIDE, STEPS_MAX + 1, STRIDE):
                async with client.lock("warm", timeout=10):
                    pass
                if not await _struck(client, crowd, work, number):
                    break
                count += 1
                # Then it works as before, and nothing was left behind
                async with client.all("x", "y", timeout=20):
                    pass
                async with client.lock("z", timeout=10) as hold:
                    hold.check()
            await client.close()
            print(name, count, flush=True)
    await other.close()
    return count


async def _struck(
    client: Any, crowd: Crowd, work: Callable[[Any], Awaitable[None]], number: int
) -> bool:
    """Do the work, and let the connections run out at this step; False if there is no such step."""
    seen = 0
    with contextlib.ExitStack() as stack:
        timer = threading.Timer(LACK_S, stack.close)
        timer.daemon = True

        def at(step: Step) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                stack.enter_context(crowd.there())
                timer.start()

        with aim(client, at), contextlib.suppress(HoldfastError):
            await work(client)
        if timer.ident is not None:
            timer.join()
    return seen >= number


async def _queues_and_guards(face: Face, url: str, crowd: Crowd) -> None:
    """Let the connections run out before each verb of queues and guards."""
    first = (face.name == "aio") % STRIDE  # in a usual run each face has its half of them
    for number, (name, struck) in list(enumerate(OTHERS))[first::STRIDE]:
        async with face.client(url) as client:
            queue = client.queue(f"queue{number}", ttl=2)
            guard = client.guard(f"guard{number}", ttl=60, lease=1)
            for _, verb in OTHERS[:number]:
                await verb(queue, guard)
            with crowd.there(), contextlib.suppress(HoldfastError):
                await struck(queue, guard)
            # Then everything works as before
            for _, verb in OTHERS:
                await verb(queue, guard)
            await queue.put("last")
            found = None
            while found != "last":
                job = await queue.take(timeout=10)
                assert job is not None, name
                found = job.payload
                assert await job.ack(), name
            assert await guard.get(compute) == "value"
