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


class Nine:
    """Nine threads that try once, at the same moment; their holds, and the seconds they took."""

    def __init__(self, locks: Client, name: str, **terms: object) -> None:
        self.name = name
        self.locks = [locks.lock(name, ttl=EXPIRY_S, **terms) for _ in range(THREADS)]  # type: ignore[arg-type]
        self.holds: list[Hold | None] = [None] * THREADS
        self.took = [0.0] * THREADS
        together = threading.Barrier(THREADS)

        def one(number: int) -> None:
            together.wait()
            begun = time.monotonic()
            self.holds[number] = self.locks[number].acquire(blocking=False)
            self.took[number] = time.monotonic() - begun

        threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def unlocked(self) -> list[bool]:
        """Release all nine, the holder and the others; return the answer to each.

        A thread without a hold can't use holdfast's method, which refuses without a request. It
        sends a release with its own token instead, as the old service does, and the server compares
        the token.
        """
        answers = []
        for hold, lock in zip(self.holds, self.locks, strict=True):
            if hold is not None:
                answers.append(hold.release())
                continue
            with pytest.raises(NotHeld):
                lock.release()
            mine = Leave(self.name, secrets.token_hex(16), 1)
            answers.append(run_sync(lock._ctx.store.leave(mine, 5.0)))
        return answers


@pytest.fixture
def url(shared_redis: RedisServer) -> str:
    return f"redis+plain://{shared_redis.host}:{shared_redis.port}/15?{SETTINGS}"


def stored(server: RedisServer, name: str) -> tuple[bytes | None, float]:
    """The token at the key, and its remaining seconds."""
    with server.client(db=15) as client:
        key = f"REDIS_LOCK_{name}"
        return client.get(key), client.pttl(key) / 1000


def test_without_renewal_work_longer_than_the_lease_ends_in_a_loss(
    url: str, shared_redis: RedisServer, own_name: str
) -> None:
    with Client(url) as locks:
        # When nine threads want the lock
        nine = Nine(locks, own_name, auto_renew=False)
        # Then one holds, and eight are refused at once
        (hold,) = [one for one in nine.holds if one]
        assert max(nine.took) < EXPIRY_S / 2
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
        assert nine.unlocked() == [False] * THREADS
        assert hold.release() is False
        assert hold.lost is Loss.EXPIRED
        # And the next hold isn't disturbed by any of those releases
        after = locks.lock(own_name, ttl=EXPIRY_S).acquire(blocking=False)
        assert after is not None
        assert hold.release() is False
        assert nine.unlocked() == [False] * THREADS
        assert after.release() is True


def test_with_renewal_it_is_held_for_all_of_the_work(
    url: str, shared_redis: RedisServer, own_name: str
) -> None:
    with Client(url) as locks:
        # When nine threads want the lock, and the work of the holder takes longer than the lease
        nine = Nine(locks, own_name)
        (hold,) = [one for one in nine.holds if one]
        token, _ = stored(shared_redis, own_name)
        time.sleep(WORK_S)
        # Then it still holds the lock
        hold.check()
        assert stored(shared_redis, own_name)[0] == token
        assert locks.lock(own_name).acquire(blocking=False) is None
        # And only the release of the holder succeeds
        answers = nine.unlocked()
        assert answers == [one is hold for one in nine.holds]
        assert stored(shared_redis, own_name)[0] is None
