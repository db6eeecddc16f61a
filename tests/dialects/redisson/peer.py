"""A simulated client of Redisson: a plain Redis client that sends Redisson's commands one by one.

It sends what a Java process with the given version of Redisson sends. It uses none of holdfast's
own scripts.
"""

from __future__ import annotations

import secrets
import time
import uuid
from typing import Any, Literal, Self

from tests.servers.redis_server import RedisServer

Version = Literal["3.8.1", "current"]
LEASE_MS = 30_000
#: Maximum seconds that a test waits for a message that must come.
SOON_S = 20.0


class Peer:
    """One thread of one Java process."""

    def __init__(self, server: RedisServer, version: Version = "current", thread: int = 41) -> None:
        self.redis = server.client()
        self.version = version
        self.id = str(uuid.uuid4())
        self.thread = thread
        self._ear: Any = None

    @property
    def me(self) -> str:
        """The owner field of this peer, in the format of Redisson."""
        return f"{self.id}:{self.thread}"

    def close(self) -> None:
        """Close its connections."""
        if self._ear is not None:
            self._ear.close()
        self.redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- RLock -----------------------------------------------------------------------------

    def lock(self, name: str, lease_ms: int = LEASE_MS) -> int | None:
        """Try once: None if the lock is held now, otherwise the holder's remaining lease in ms."""
        answer: int | None = self.redis.eval(
            """
            local free = redis.call('exists', KEYS[1]) == 0
            if free or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
              redis.call('hincrby', KEYS[1], ARGV[2], 1)
              redis.call('pexpire', KEYS[1], ARGV[1])
              return nil
            end
            return redis.call('pttl', KEYS[1])
            """,
            1,
            name,
            lease_ms,
            self.me,
        )
        return answer

    def unlock(self, name: str) -> bool | None:
        """True: the lock is free now; False: it is still held; None: this peer didn't hold it."""
        latch = f"redisson_unlock_latch:{{{name}}}:{secrets.token_hex(16)}"
        answer = self.redis.eval(
            """
            if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
            local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
            if left > 0 then
              redis.call('pexpire', KEYS[1], ARGV[2])
              if ARGV[3] == 'current' then redis.call('set', KEYS[3], 0, 'px', 4500) end
              return 0
            end
            redis.call('del', KEYS[1])
            redis.call('publish', KEYS[2], '0')
            if ARGV[3] == 'current' then redis.call('set', KEYS[3], 1, 'px', 4500) end
            return 1
            """,
            3,
            name,
            f"redisson_lock__channel:{{{name}}}",
            latch,
            self.me,
            LEASE_MS,
            self.version,
        )
        self.redis.delete(latch)
        return None if answer == -1 else bool(answer)

    def spin_unlock(self, name: str) -> None:
        """Unlock without publishing a message, as a spin lock does."""
        self.redis.hdel(name, self.me)

    def renew(self, name: str, lease_ms: int = LEASE_MS) -> bool:
        """Renew the lease, as the watchdog does after every third of it."""
        return bool(self.redis.hexists(name, self.me) and self.redis.pexpire(name, lease_ms))

    # -- RReadWriteLock --------------------------------------------------------------------

    def read(self, name: str, lease_ms: int = LEASE_MS) -> int | None:
        """Take the read lock: None if held now, otherwise the writer's remaining lease in ms."""
        mode = self.redis.hget(name, "mode")
        if mode == b"write":
            return int(self.redis.pttl(name))
        if mode is None:
            self.redis.hset(name, "mode", "read")
        count = self.redis.hincrby(name, self.me, 1)
        self.redis.set(f"{{{name}}}:{self.me}:rwlock_timeout:{count}", 1, px=lease_ms)
        self.redis.pexpire(name, max(self.redis.pttl(name), lease_ms))
        return None

    def write(self, name: str, lease_ms: int = LEASE_MS) -> int | None:
        """Take the write lock: None if it is held now, otherwise the remaining lease in ms."""
        if self.redis.exists(name):
            return int(self.redis.pttl(name))
        self.redis.hset(name, mapping={"mode": "write", f"{self.me}:write": 1})
        self.redis.pexpire(name, lease_ms)
        return None

    def unread(self, name: str) -> None:
        """Release the only read lock."""
        self.redis.hdel(name, self.me)
        self.redis.delete(f"{{{name}}}:{self.me}:rwlock_timeout:1")
        if self.redis.hlen(name) == 1:
            self.redis.delete(name)
            self.redis.publish(f"redisson_rwlock:{{{name}}}", "0")

    def unwrite(self, name: str) -> None:
        """Release the only write lock."""
        self.redis.delete(name)
        said = "0" if self.version == "3.8.1" else "1"
        self.redis.publish(f"redisson_rwlock:{{{name}}}", said)

    # -- messages --------------------------------------------------------------------------

    def hear(self, channel: str) -> None:
        """Subscribe to a channel, as Redisson's waiters do."""
        self._ear = self.redis.pubsub(ignore_subscribe_messages=False)
        self._ear.subscribe(channel)
        end = time.monotonic() + SOON_S
        while self._ear.get_message(timeout=0.1) is None:
            assert time.monotonic() < end

    def heard(self, within: float = SOON_S) -> bytes | None:
        """The next message, or None if there is none in time."""
        end = time.monotonic() + within
        while (left := end - time.monotonic()) > 0:
            said = self._ear.get_message(timeout=left)
            if said is not None and said["type"] == "message":
                return bytes(said["data"])
        return None
