"""The data of holdfast on Redis, for tests that damage them from outside."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.servers.redis_server import RedisServer
from tests.stores.bytes import changed


class Field(NamedTuple):
    key: bytes
    type: str
    field: bytes = b""


class RedisGround:
    """See `holdfast.testing.faults.damage.Ground`."""

    #: A third of the ttl until the next renewal, plus the lag of a busy machine.
    overlap_s = 2.5
    #: A flipped bit of a time blocks a name for ten seconds, and up to five more until a check.
    calm_s = 18.0

    def __init__(self, server: RedisServer) -> None:
        self.url = server.url
        self._client = server.client()

    def items(self, token: str) -> list[Field]:
        found = []
        for key in sorted(self._client.scan_iter(f"*{token}*", count=10_000)):
            kind = self._client.type(key).decode()
            found.append(Field(key, kind))
            if kind == "hash":
                found += [Field(key, kind, field) for field in sorted(self._client.hkeys(key))]
            elif kind == "zset":
                found += [Field(key, kind, one) for one in self._client.zrange(key, 0, -1)]
        return found

    def damage(self, item: Field, kind: str, chance: random.Random) -> bool:
        """Damage one key, field or member; return whether this kind of damage applies to it."""
        client, key = self._client, item.key
        if kind == "another type":
            if item.field:
                return False
            client.delete(key)
            if item.type == "string":
                client.lpush(key, "theirs")
            else:
                client.set(key, "theirs")
            return True
        if kind == "removed":
            if not item.field:
                return bool(client.delete(key))
            if item.type == "hash":
                return bool(client.hdel(key, item.field))
            return bool(client.zrem(key, item.field))
        if item.type == "zset":
            score = {"extreme": chance.choice(("inf", "-inf", "1e300")), "zeroes": "0"}.get(kind)
            if score is None or not item.field:
                return False
            client.zadd(key, {item.field: float(score)}, xx=True)
            return True
        if item.type == "hash" and not item.field:
            return False
        before = client.hget(key, item.field) if item.field else client.get(key)
        if before is None:
            return False
        after = changed(before, kind, chance)
        if item.field:
            client.hset(key, item.field, after)
        else:
            client.set(key, after, keepttl=True)
        return True
