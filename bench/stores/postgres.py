"""The PostgreSQL arena: one durable server on the same machine, and bare statements as floors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast import Client

from .. import crew, servers
from ..contenders import Arena, Contender, Part
from ..model import Target
from . import feeds_ours, feeds_postgres, ours, shields_ours, shields_sql
from .shields_sql import SELECT, SELECT_ASYNC

OURS = "holdfast"
OURS_ASYNC = "holdfast, asyncio"
BARE = "INSERT and DELETE, psycopg"
NOTIFY = "NOTIFY, psycopg"
PROCRASTINATE = "procrastinate"
_URL = servers.url
_ONCE: frozenset[Part] = frozenset({"uncontended"})
_WAKES: frozenset[Part] = frozenset({"handoff"})
_READY_S = 60.0
#: PostgreSQL's own defaults; the server of the tests has smaller values.
_SETTINGS = ("shared_buffers = 128MB", "max_wal_size = 1GB")


def _connected() -> Any:
    import psycopg

    return psycopg.connect(_URL(), autocommit=True, prepare_threshold=0)


class Bare:
    """The floor for a pair, no lock: insert a row and delete it, each durably."""

    def __init__(self, place: Path) -> None:
        self._session = _connected()
        self._name = place.name

    async def take(self) -> None:
        self._session.execute("INSERT INTO bare VALUES (%s, 'me', now())", (self._name,))

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        self._session.execute("DELETE FROM bare WHERE name = %s", (self._name,))

    async def close(self) -> None:
        self._session.close()

    def pair(self) -> Callable[[], object]:
        execute, values = self._session.execute, (self._name,)

        def pair() -> None:
            execute("INSERT INTO bare VALUES (%s, 'me', now())", values)
            execute("DELETE FROM bare WHERE name = %s", values)

        return pair


class Baton:
    """The floor for a hand-off, no lock: one process wakes another by a bare NOTIFY.

    The second process to ``take`` waits for the notification; the first one sends it in ``free``.
    """

    def __init__(self, place: Path) -> None:
        self._session, self._ear = _connected(), _connected()
        self._name = f"baton_{place.name}".replace("-", "_").lower()
        self._ear.execute(f'LISTEN "{self._name}"')
        self._served = False

    async def take(self) -> None:
        row = self._session.execute(
            "INSERT INTO bare VALUES (%s, 'me', now()) ON CONFLICT DO NOTHING RETURNING 1",
            (self._name,),
        ).fetchone()
        if row is None:
            self._served = True
            for _ in self._ear.notifies(stop_after=1):
                pass

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor has no time-out")

    async def free(self) -> None:
        if self._served:  # this process was notified, so no other process waits
            self._served = False
            self._session.execute("DELETE FROM bare WHERE name = %s", (self._name,))
        else:
            self._session.execute("SELECT pg_notify(%s, '')", (self._name,))

    async def close(self) -> None:
        self._session.close()
        self._ear.close()

    def pair(self) -> Callable[[], object]:
        raise RuntimeError("the floor is for hand-offs only")


@contextlib.contextmanager
def _around() -> Generator[str]:
    """Start the server, make the tables, and take a first lock; yield a text about the server."""
    with servers.running("postgres_server", "PostgresServer", *_SETTINGS, fsync=True) as server:
        crew.alone(_first, _READY_S)
        ((version,),) = server.ask("SHOW server_version")
        yield f"PostgreSQL {version.split()[0]} on the loopback, durable"


def _first() -> None:
    with _connected() as session:
        session.execute("CREATE TABLE bare (name text PRIMARY KEY, owner text, since timestamptz)")
    with Client(_URL()) as client:
        client.lock(ours.NAME).acquire().release()


def _commands(_place: Path) -> Mapping[str, Sequence[str]]:
    return {}


POSTGRES = Arena(
    name="postgres",
    title="PostgreSQL, next to the least that its driver can do",
    contenders=(
        Contender(OURS, ours.kept(_URL, ours.own_name)),
        Contender(OURS_ASYNC, ours.on_loop(_URL, ours.own_name), "asyncio"),
        Contender(BARE, Bare, package="psycopg", parts=_ONCE),
        Contender(NOTIFY, Baton, package="psycopg", parts=_WAKES),
    ),
    reference=BARE,
    url=_URL,
    commands=_commands,
    around=_around,
    feeders=(*feeds_ours.feeders(_URL), *feeds_postgres.FEEDERS),
    shielders=(*shields_ours.shielders(_URL), *shields_sql.postgres(_URL)),
    suites=(
        "uncontended",
        "handoff",
        "contention",
        "queue",
        "queue-fairness",
        "queue-depth",
        "guard",
    ),
    targets={
        key: [Target(OURS, "pair", "ratio", at_most=1.4)]
        for key in ("uncontended", "uncontended-warm")
    }
    | {key: [Target(OURS, "p50", "ratio", at_most=2.0)] for key in ("handoff-idle", "handoff-warm")}
    | shields_ours.targets(SELECT, SELECT_ASYNC)
    | {
        "queue": [Target(OURS, "rate", "ratio", at_least=1.0)],
        "contention-8": [
            Target(OURS, "jain", "value", at_least=0.98),
            Target(OURS, "starved", "value", at_most=0.0),
            Target(OURS, "overlaps", "value", at_most=0.0, safety=True),
            Target(OURS_ASYNC, "overlaps", "value", at_most=0.0, safety=True),
        ],
    },
    references={
        "handoff-idle": NOTIFY,
        "handoff-warm": NOTIFY,
        "contention-8": OURS,
        "queue": PROCRASTINATE,
        "queue-wake": OURS,
        **shields_ours.references(SELECT),
    },
    crowds=(8,),
)
