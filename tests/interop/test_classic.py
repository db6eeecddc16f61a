"""Nine threads want one name, locked as an old Java service locks it: one holds, eight are refused.

The service uses database 15, keys with the prefix ``REDIS_LOCK_``, tokens of a UUID and a time, and
whole seconds. A lock expires after 20 s, while the work takes 25 s. In the usual run both are a
tenth of that.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Client, Hold, LockLost, Loss, NotHeld
from holdfast.core.model import Leave
from holdfast.runtime.blocking import run_sync
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL

THREADS = 9
EXPIRY_S, WORK_S = (20.0, 25.0) if FULL else (2.0, 2.5)
SETTINGS = "prefix=REDIS_LOCK_&token=uuid-timestamp&unit=seconds"
TOKEN = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_[0-9]{17}")


@pytest.fixture
def url(shared_redis: RedisServer) -> str:
    return f"redis+plain://{shared_redis.host}:{shared_redis.port}/15?{SETTINGS}"


def nine(
    locks: Client, name: str, **terms: Any
) -> tuple[Hold, float, Callable[[], list[tuple[bool, bool]]]]:
    """Let nine threads try once, at the same moment.

    Return the one hold, the longest try in seconds, and a function that releases all nine, and
    returns for each whether it holds, and whether it got the reply that it did.
    """
    wanted = [locks.lock(name, ttl=EXPIRY_S, **terms) for _ in range(THREADS)]
    together = threading.Barrier(THREADS)

    def one(lock: Any) -> tuple[Hold | None, float]:
        together.wait()
        begun = time.monotonic()
        return lock.acquire(blocking=False), time.monotonic() - begun

    with ThreadPoolExecutor(THREADS) as pool:
        tried = [*pool.map(one, wanted)]
    (hold,) = [hold for hold, _ in tried if hold]

    def unlocked(lock: Any) -> bool:
        # holdfast's method refuses without a request; the old service sends its own token, and
        # the server compares it
        with pytest.raises(NotHeld):
            lock.release()
        return run_sync(lock._ctx.store.leave(Leave(name, secrets.token_hex(16), 1), 5.0))

    return (
        hold,
        max(took for _, took in tried),
        lambda: [
            (mine is not None, mine.release() if mine else unlocked(lock))
            for lock, (mine, _) in zip(wanted, tried, strict=True)
        ],
    )


def stored(server: RedisServer, name: str) -> tuple[bytes | None, float]:
    """The token at the key, and its remaining seconds."""
    with server.client(db=15) as client:
        key = f"REDIS_LOCK_{name}"
        return client.get(key), client.pttl(key) / 1000


def test_without_renewal_work_longer_than_the_lease_ends_in_a_loss(
    url: str, shared_redis: RedisServer, own_name: str
) -> None:
    with Client(url) as locks:
        # When nine threads want the lock, then one holds, and eight are refused at once
        hold, longest, unlock = nine(locks, own_name, auto_renew=False)
        assert longest < EXPIRY_S / 2
        token, left = stored(shared_redis, own_name)
        assert token is not None
        assert TOKEN.fullmatch(token)
        assert EXPIRY_S / 2 < left <= EXPIRY_S
        # When the work takes longer than the lease
        time.sleep(WORK_S)
        # Then the hold is lost, and no release is reported as successful
        assert stored(shared_redis, own_name)[0] is None
        with pytest.raises(LockLost):
            hold.check()
        assert [told for _, told in unlock()] == [False] * THREADS
        assert hold.lost is Loss.EXPIRED
        # And the next hold isn't disturbed by any of those releases
        after = locks.lock(own_name, ttl=EXPIRY_S).acquire(blocking=False)
        assert after is not None
        assert [told for _, told in unlock()] == [False] * THREADS
        assert after.release() is True


def test_with_renewal_it_is_held_for_all_of_the_work(
    url: str, shared_redis: RedisServer, own_name: str
) -> None:
    with Client(url) as locks:
        # When nine threads want the lock, and the work of the holder takes longer than the lease
        hold, _, unlock = nine(locks, own_name)
        token, _ = stored(shared_redis, own_name)
        time.sleep(WORK_S)
        # Then it still holds the lock, and only the release of the holder succeeds
        hold.check()
        assert stored(shared_redis, own_name)[0] == token
        assert locks.lock(own_name).acquire(blocking=False) is None
        assert all(holds is told for holds, told in unlock())
        assert stored(shared_redis, own_name)[0] is None
