"""Ctrl-C in a blocking read and in a sleep: the call ends at once, and no claim is left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from holdfast import Client
from holdfast.stores.redis.library import JOIN, KEEP, LEAVE, STAND, Script
from holdfast.testing import lag
from holdfast.testing.faults import DROP_REPLY, Proxy
from tests.stores.redis.conftest import eventually
from tests.torture.scale import times

lag.watch()


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
def test_a_read_that_blocks_is_left_at_once_and_undone(
    verb: Script, by_proxy: Client, proxy: Proxy, other: Client, own_name: str
) -> None:
    took = []
    with ctrl_c() as interrupt:
        for number in range(times(300, 3)):
            # Given a request whose reply doesn't come
            name = f"{own_name}{number:04}"
            rival = other.lock(name).acquire() if verb is STAND else None
            # Only for this name, because the renewer can still clean up after the last one
            armed = proxy.arm(partial(_is_of, verb.sha, name.encode()), DROP_REPLY)
            thread = threading.Thread(target=lambda: (armed.wait(), interrupt()))  # noqa: B023
            # When Ctrl-C comes during the read
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                _pass(by_proxy, name, extend=verb is KEEP)
            came = time.monotonic()
            thread.join()
            if rival is not None:
                rival.release()
            # Then nothing of the request is left
            eventually(lambda: not other.inspect(name))  # noqa: B023
            took.append(time.monotonic() - came)
            with by_proxy.lock(name, timeout=5):
                pass
    # Half of the tries are fast; the machine can delay the others
    assert sorted(took)[len(took) // 2] < 0.25
