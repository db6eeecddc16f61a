"""Ctrl-C at every point of a verb, and in a blocking read: no claim and no reply is left."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import JOIN, KEEP, LEAVE, STAND, Script
from holdfast.testing import lag
from holdfast.testing.faults import DROP_REPLY, RESP, Proxy, Strike, dice, points
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import eventually
from tests.torture.scale import FULL, times
from tests.torture.test_interrupt import (
    LATER_S,
    LEFT_S,
    NOT_BEGUN,
    NOT_BEGUN_MAX,
    Room,
    acquire_and_release,
    adopted,
    in_the_line,
    in_vain,
    statements,
    with_all,
    with_lock,
    with_semaphore,
    with_writer,
)

lag.watch()

WORKS = [
    acquire_and_release,
    with_lock,
    with_semaphore,
    with_writer,
    with_all,
    adopted,
    in_the_line,
    in_vain,
]
#: If an interrupt hits a finalizer, the interpreter can only warn.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(params=[3, 2], ids=["resp3", "resp2"])
def room(request: pytest.FixtureRequest, redis_url: str, own_name: str) -> Iterator[Room]:
    one = Room(f"{redis_url}?prefix={own_name}&protocol={request.param}")
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield one
        one.close()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_at_each_point_in_turn_leaves_nothing(
    work: Callable[[Room], None], room: Room
) -> None:
    def do() -> None:
        work(room)

    def counted() -> int:
        room.prepare(work)
        return points(do)

    many = min(counted(), counted())  # on a busy machine a wait has more of them
    numbers = range(1, many + 1)
    some = numbers if FULL else sorted(dice(work.__name__).sample(numbers, min(many, 14)))
    not_begun, left, struck = [], [], 0
    for number in some:
        # When Ctrl-C comes at this point
        room.prepare(work)
        with contextlib.suppress(KeyboardInterrupt), Strike(number) as strike:
            do()
        struck += bool(strike.where)
        # Then nothing is left a moment later
        begun = strike.where.rpartition(" ")[2] not in NOT_BEGUN
        if room.left(LEFT_S if begun and not left else LATER_S):
            (left if begun else not_begun).append(f"{number}: {strike.where}")
            room.renew()
    print(f"{struck} strikes, {many} points; left, as a release had not begun: {not_begun}")
    assert left == []
    assert len(not_begun) <= NOT_BEGUN_MAX * statements(work)
    assert struck >= len(some) / 2
    # And everything works as before: no verb gets the reply of another
    for _ in range(3):
        room.prepare(work)
        asked = boottime()
        try:
            do()
        except StoreUnavailable:  # a try has a tenth of a second, and the machine stood still
            assert lag.since(asked) > 0.05
    assert room.left() == 0


@contextlib.contextmanager
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Yield a function that sends Ctrl-C to the main thread; any thread may call it."""
    former = signal.signal(signal.SIGUSR2, signal.default_int_handler)
    try:
        yield lambda: os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, former)


def _pass(client: Client, name: str, extend: bool) -> None:
    with client.lock(name, timeout=20) as hold:
        if extend:
            hold.extend()


def _is_of(sha: bytes, name: bytes, sent: bytes) -> bool:
    return sha in sent and name in sent


@pytest.mark.parametrize("verb", [JOIN, KEEP, LEAVE, STAND], ids=["join", "keep", "leave", "stand"])
@pytest.mark.parametrize("protocol", [3, 2], ids=["resp3", "resp2"])
def test_a_read_that_blocks_is_left_at_once_and_undone(
    verb: Script, protocol: int, shared_redis: RedisServer, own_name: str
) -> None:
    with contextlib.ExitStack() as ends:
        proxy = ends.enter_context(Proxy(shared_redis.host, shared_redis.port, RESP))
        mine = ends.enter_context(
            Client(f"redis://127.0.0.1:{proxy.port}?protocol={protocol}&prefix={own_name}")
        )
        other = ends.enter_context(Client(f"{shared_redis.url}?prefix={own_name}"))
        interrupt = ends.enter_context(ctrl_c())
        mine.lock("warm").acquire().release()
        took = []
        for number in range(times(300, 3)):
            # Given a request whose reply doesn't come
            name = f"x{number:04}"
            rival = other.lock(name).acquire() if verb is STAND else None
            # Only for this name, because the renewer can still clean up after the last one
            ours = partial(_is_of, verb.sha, name.encode())
            armed = proxy.arm(ours, DROP_REPLY)
            thread = threading.Thread(target=lambda: (armed.wait(), interrupt()))  # noqa: B023
            # When Ctrl-C comes during the read
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                _pass(mine, name, extend=verb is KEEP)
            came = time.monotonic()
            thread.join()
            if rival is not None:
                rival.release()
            # Then nothing of the request is left
            eventually(lambda: not other.inspect(name))  # noqa: B023
            took.append(time.monotonic() - came)
            with mine.lock(name, timeout=5):
                pass
        # Half of the tries are fast; the machine can delay the others
        assert sorted(took)[len(took) // 2] < 0.25


def test_a_waiter_in_its_sleep_is_woken_by_ctrl_c(
    locks: Client, other: Client, own_name: str
) -> None:
    with ctrl_c() as interrupt:
        # Without `with`, because inside of it the other client's wait would be refused.
        hold = other.lock(own_name).acquire()

        def when_it_waits() -> None:
            eventually(lambda: other.inspect(own_name)[0].waiters)
            interrupt()

        thread = threading.Thread(target=when_it_waits)
        thread.start()
        begun = boottime()
        with pytest.raises(KeyboardInterrupt):
            locks.lock(own_name).acquire()
        assert boottime() - begun < 1.0 + lag.since(begun)
        thread.join()
        assert not other.inspect(own_name)[0].waiters
        hold.release()
