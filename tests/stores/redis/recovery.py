"""The scripts with recovery, on a server whose age the test sets."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.model import Claim, Renewal, Standing
from holdfast.core.ports import NotYet
from holdfast.stores.redis import replies
from holdfast.stores.redis.config import settings
from holdfast.stores.redis.keys import BUCKETS, recovery_of
from holdfast.stores.redis.library import RECLAIM, RECOVERY, load_command, script_of
from holdfast.stores.redis.recovery import Recovery, Verdict
from holdfast.url import find
from tests.servers.redis_server import RedisServer
from tests.stores.redis.verbs import CLOCK, LABEL, Verbs

WINDOW_S = 5.0
UP = b"string.match(said, 'uptime_in_seconds:(%d+)')"


class RecoveryVerbs(Verbs):
    """The scripts and recovery, on a server whose age the test sets."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(server, clock=True)
        for one in (RECOVERY, RECLAIM):
            before = self._debug[one.sha].text
            text = before.replace(UP, b"call('HGET', '%b', 'up')" % CLOCK.encode())
            assert text != before
            script = self._debug[one.sha] = script_of(one.name, text)
            self.raw(load_command(script))

    def up(self, seconds: float) -> None:
        """Set the least age of the server; the age that it reports can be a second higher."""
        self.client.hset(CLOCK, "up", str(int(seconds) + 1))

    def at(self, now: float) -> None:
        super().at(now)
        self.client.hsetnx(CLOCK, "up", "1000")

    def know(self) -> bytes:
        """Find out which server this is, as a new connection does."""
        said = [
            self.client.execute_command("INFO", section)
            for section in ("server", "replication", "memory")
        ]
        lines = ["".join(f"{key}:{value}\r\n" for key, value in one.items()) for one in said]
        recovery = Recovery(settings(find("redis://here")[1]))
        self.run_id = recovery.server([line.encode() for line in lines])
        return self.run_id

    def copied(self, up: float = 1000) -> None:
        """Make the server the copy of another one."""
        self.remember(b"0" * 40)
        self.up(up)
        self.know()

    def judged(self, window: float = WINDOW_S, strict: bool = False, **caller: Any) -> Verdict:
        """Return the verdict of recovery after it has read all records.

        ``caller`` has the facts that the caller knows (see `Requests.recovery`).
        """
        caller.setdefault("run_id", self.run_id)
        reply = self.ask(self.requests.recovery(range(BUCKETS), window, strict, **caller))
        found = Recovery(settings(find("redis://here")[1])).verdict(reply)
        assert isinstance(found, Verdict), found
        return found._replace(record=found.record or found.run_id)

    def remember(self, record: bytes) -> None:
        self.client.mset({recovery_of("holdfast", bucket): record for bucket in range(BUCKETS)})

    def records(self) -> set[bytes | None]:
        return set(self.client.mget([recovery_of("holdfast", bucket) for bucket in range(BUCKETS)]))

    def reclaim(self, renewal: Renewal) -> Standing:
        reply = self.ask(self.requests.reclaim(renewal, WINDOW_S))
        if reply == [6]:
            raise NotYet("ask recovery", 0.0)
        return replies.stood(reply, renewal.ttl, LABEL)


def barred(verbs: Verbs, one: Claim) -> None:
    """Expect that the claim is not granted, whether it may wait or not."""
    for wait in (True, False):
        with pytest.raises(NotYet):
            verbs.join(one, wait)


def promoted(verbs: RecoveryVerbs) -> None:
    """Make the server the copy of another one, which grants nothing for the grace period."""
    verbs.copied()
    assert verbs.judged().seconds == WINDOW_S
