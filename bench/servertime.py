"""Compares the time that Redis spends on our scripts with that of a compare-and-delete script.

The server measures the time of each EVALSHA (INFO commandstats). All scripts take turns within each
round, in pipelines, so that other load of the machine affects them alike. Only the ratios are
meaningful. The keys have a separate prefix and are deleted at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from holdfast.core.model import Claim, Kind, Leave, Renewal, Spec
from holdfast.stores.redis.keys import BUCKETS, recovery_of
from holdfast.stores.redis.library import SCRIPTS, load_command, packed
from holdfast.stores.redis.scripts import Call, Requests, ending

PREFIX = "holdfast-bench"
REFERENCE = "compare and delete"
#: The labels of a round's results, in their order.
LABELS = (
    REFERENCE,
    "join",
    "renewal, of a batch",
    "try, refused",
    "leave",
    "join, the first to wait",
    "join, behind a line",
    "turn of a waiter",
    "leave, serving the next",
)
COMPARE_AND_DELETE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
    "else return 0 end"
)
OWNER = "host-17:12345:MainThread"
#: The waiter TTL in seconds: long enough that no waiter expires during a round.
PATIENCE_S = 600.0
#: Number of names in a first round that isn't measured.
_WARM_UP = 20

Round = Iterator[tuple[str, float, float]]


class Server:
    """One connection, and the times that the server reports for its requests."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self._wire: Any = self.client.connection_pool.get_connection()
        self.requests = Requests(PREFIX, PATIENCE_S)
        self.sha = str(self.client.script_load(COMPARE_AND_DELETE)).encode()
        self.send([load_command(script) for script in SCRIPTS])
        run_id = str(self.client.info("server")["run_id"]).encode()
        self.ending = ending(run_id)
        # Set the keys of recovery to the values that they have on a server without data loss.
        self.send([packed(b"SET", recovery_of(PREFIX, b), run_id) for b in range(BUCKETS)])

    def send(self, wires: Sequence[bytes]) -> list[Any]:
        """Send all requests in one write; return their replies."""
        self._wire.send_packed_command([b"".join(wires)])
        return [self._wire.read_response(disable_decoding=True) for _ in wires]

    def timed(self, wires: Sequence[bytes]) -> float:
        """Send these EVALSHAs; return the server's mean microseconds for one."""
        before = self._spent()
        self.send(wires)
        after = self._spent()
        assert after[0] - before[0] == len(wires), "another program uses this server"
        return (after[1] - before[1]) / len(wires)

    def _spent(self) -> tuple[int, int]:
        found: Any = self.client.info("commandstats")
        spent = found.get("cmdstat_evalsha", {"calls": 0, "usec": 0})
        return spent["calls"], spent["usec"]

    def close(self) -> None:
        """Delete the keys, and close the connection."""
        for key in self.client.scan_iter(PREFIX + ":*", count=1000):
            self.client.delete(key)
        self.client.connection_pool.release(self._wire)
        self.client.close()


def a_round(server: Server, names: Sequence[str]) -> Round:
    """Call each verb once on every name; yield label, claims per call, microseconds of a call."""
    ask = server.requests

    def claims() -> list[Claim]:
        return [
            Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, 30.0, OWNER)) for name in names
        ]

    def of(calls: Sequence[Call]) -> float:
        return server.timed([call.head + server.ending for call in calls])

    def leaves(those: Sequence[Claim]) -> list[Call]:
        return [ask.leave(Leave(c.spec.name, c.id, 0)) for c in those]

    keys = [f"{PREFIX}:{{17}}:{name}".encode() for name in names]
    ids = [c.id.encode() for c in claims()]
    server.send(
        [packed(b"SET", key, value, b"PX", b"30000") for key, value in zip(keys, ids, strict=True)]
    )
    pairs = zip(keys, ids, strict=True)
    deletes = [packed(b"EVALSHA", server.sha, b"1", key, value) for key, value in pairs]
    yield REFERENCE, 1, server.timed(deletes)
    one, two, three = claims(), claims(), claims()
    yield "join", 1, of([ask.join(c, True) for c in one])
    batches, _ = ask.batches([Renewal(c, 0, 30.0) for c in one], range(len(one)), by_bucket=False)
    batch = len(one) / len(batches)
    yield "renewal, of a batch", batch, of([each.call for each in batches])
    yield "try, refused", 1, of([ask.join(c, False) for c in two])
    yield "leave", 1, of(leaves(one))
    of([ask.join(c, True) for c in one])
    yield "join, the first to wait", 1, of([ask.join(c, True) for c in two])
    yield "join, behind a line", 1, of([ask.join(c, True) for c in three])
    yield "turn of a waiter", 1, of([ask.turn(c) for c in three])
    yield "leave, serving the next", 1, of(leaves(one))
    of(leaves(two))
    of(leaves(three))


def measured(url: str, names: int) -> dict[str, float]:
    """Measure one round; return the server's microseconds for a claim, by label."""
    server = Server(url)
    try:
        for _ in a_round(server, [f"warm-{n}" for n in range(_WARM_UP)]):
            pass
        return {
            label: us / claims
            for label, claims, us in a_round(server, [f"name-{n}" for n in range(names)])
        }
    finally:
        server.close()
