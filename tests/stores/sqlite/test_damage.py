"""Damage from outside is detected: never two holders, and only errors of holdfast."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sqlite3
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from holdfast import Client
from holdfast.core.model import Held
from holdfast.errors import ConfigError, HoldfastError, StoreUnavailable
from holdfast.stores.sqlite.aio.loop import Worker
from holdfast.stores.sqlite.blocking import database, header, lone
from holdfast.stores.sqlite.blocking.closing import Closing
from holdfast.stores.sqlite.blocking.doctor import examine
from holdfast.stores.sqlite.blocking.sql import Unnumbered, _plain
from holdfast.url import find
from tests.stores.pauses import a_damaged_pause_ends_with_the_failure
from tests.stores.sqlite.desk import Desk, claim

#: The words of the page of the file mutex.
WORDS = [
    *("NEXT", "LIMIT", "RESERVED", "WORLD", "BOOT_LOW", "BOOT_HIGH", "DATABASE", "LONE"),
    *("SHARED_MEMORY", "LOG", "QUIET", "LATEST", "TOMBS", "MAGIC", "VERSION", "TIME_SPACE"),
]
EXTREMES = {
    "zero": 0,
    "all ones": (1 << 64) - 1,
    "infinite": struct.unpack("=Q", struct.pack("=d", math.inf))[0],
    "no number": struct.unpack("=Q", struct.pack("=d", math.nan))[0],
    "top bit": 1 << 63,
}
LEASE_S = 5.0


def _write(path: Path, at: int, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.pwrite(fd, data, at)
    finally:
        os.close(fd)


def _refused(path: Path) -> None:
    """Check that a new client isn't granted the lock, and that doctor raises no raw error."""
    with Desk(path) as late, contextlib.suppress(HoldfastError):
        answer = late.join(claim(), wait=False)
        assert not isinstance(answer, Held), "two holders"
    list(examine(find(f"sqlite://{path}")[1]))


@pytest.mark.usual(10)
@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("word", WORDS)
def test_a_damaged_word_of_the_file_mutex_grants_nothing_next_to_a_holder(
    word: str, value: str, path: Path, here: Desk, there: Desk
) -> None:
    # Given a holder, and another client that has the files open
    fence = here.hold(held := claim(ttl=LEASE_S))
    assert there.free("other")
    # When a word in the page of the file mutex is overwritten
    at = 8 * getattr(header, word)
    _write(Path(f"{path}.d/gate"), at, struct.pack("=Q", EXTREMES[value]))
    # Then no client, new or old, is granted the lock, and every error is one of holdfast
    _refused(path)
    with contextlib.suppress(HoldfastError):
        assert not there.free()
        assert there.join(claim("third"), wait=False) is not None
        here.renew(held, fence)
    # And no fence falls
    with contextlib.suppress(HoldfastError):
        answer = there.join(claim("fourth"), wait=False)
        if isinstance(answer, Held):
            assert answer.fence > fence


@pytest.mark.parametrize("field", ["ticket", "expires", "name", "ttl", "since"])
@pytest.mark.parametrize("bit", [0, 5, 52, 62, 63])
def test_a_flipped_bit_of_a_single_claim_grants_nothing_next_to_its_holder(
    field: str, bit: int, path: Path, here: Desk
) -> None:
    # Given a holder without waiters
    here.hold(held := claim(ttl=LEASE_S))
    slot = crc32(held.spec.name.encode()) % lone.SLOTS
    body = lone._BODIES + lone.BODY * slot
    at = {
        "ticket": lone._TICKETS + 8 * slot,
        "expires": lone._EXPIRES + 8 * slot,
        "since": body + 48,
        "ttl": body + lone._OWN.size,
        "name": body + lone._TEXTS + len(str(held.spec.kind)),
    }[field]
    table = path.with_name("locks.db-lone")
    data = bytearray(table.read_bytes()[at : at + 8])
    data[bit // 8 % (8 if field != "name" else 6)] ^= 1 << bit % 8
    # When one bit of the stored claim is flipped
    _write(table, at, bytes(data))
    # Then a new client sees the lock as held, or is refused until the lease has expired
    _refused(path)


@pytest.mark.parametrize("size", [0, 8, 4096, 1 << 20, lone.SIZE - 1, lone.SIZE + 1])
def test_a_table_of_another_size_is_damaged(size: int, path: Path, here: Desk) -> None:
    # Given a holder whose table of lone claims was truncated or extended, and that no longer reads
    # it
    here.hold(claim(ttl=LEASE_S))
    os.truncate(path.with_name("locks.db-lone"), size)
    # When a new client comes, then it isn't granted the lock until the lease has expired
    _refused(path)


def test_a_hundred_clients_of_a_process_need_few_descriptors(url: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    # Given sixty clients in one process that all hold, and that have all used one common line
    clients = [Client(url) for _ in range(60)]
    holds = [one.lock(f"own-{number}").acquire() for number, one in enumerate(clients)]
    for one in clients:
        with one.lock("all", timeout=10):
            assert clients[0].lock("all").acquire(timeout=0) is None or one is clients[0]
    # Then each costs at most six descriptors
    assert len(os.listdir("/proc/self/fd")) - before <= 6 * len(clients)
    for hold, one in zip(holds, clients, strict=True):
        hold.release()
        one.close()
    # And all descriptors are closed together with the last client
    assert len(os.listdir("/proc/self/fd")) - before <= 2


def test_a_worker_whose_thread_cannot_be_started_is_started_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a process that can't start another thread
    worker = Worker()
    start = threading.Thread.start

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(StoreUnavailable, match="can't start its worker"):
        worker.put(None)  # type: ignore[arg-type]
    # When it can start threads again, then the worker starts
    monkeypatch.setattr(threading.Thread, "start", start)
    worker.put(None)  # type: ignore[arg-type]
    assert worker.thread is not None
    worker.thread.join(5)
    assert not worker.thread.is_alive()


def test_statements_mean_the_same_without_the_numbers_of_their_parameters(
    monkeypatch: pytest.MonkeyPatch, here: Desk, there: Desk
) -> None:
    # Given a version of Python that warns about numbered parameters
    monkeypatch.setattr(database, "Closing", type("Both", (Closing, Unnumbered), {}))
    assert _plain("a ?2 b ?1 c ?2") == ("a ? b ? c ?", (1, 0, 1))
    # When one client waits for another, then all verbs work
    fence = here.hold(held := claim())
    there.join(wanted := claim())
    assert here.renew(held, fence) == Held(fence, held.spec.ttl)
    assert here.leave(held, fence)
    assert there.hold(wanted) > fence


@pytest.mark.parametrize("state", [None, "", "lock", "lock one 0 0 0 0 0 0"])
def test_an_impossible_line_header_is_a_clear_error(
    state: str | None, path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a holder and a waiter, whose line is in the database
    here, there, late = desk(), desk(), desk()
    here.hold(claim())
    there.join(claim())
    # When the header of the line is overwritten
    with contextlib.closing(sqlite3.connect(path)) as books, books:
        books.execute("UPDATE claims SET state = ? WHERE ticket = 0", (state,))
    # Then all clients get a clear error, and closing works
    for one in (here, there, late):
        with pytest.raises(ConfigError, match="is damaged"):
            one.join(claim(), wait=False)


def test_a_schema_that_is_no_text_is_a_clear_error(path: Path, url: str) -> None:
    with Client(url) as client:
        client.lock("x").acquire().release()
        client.guard("g", ttl=60).get(lambda: "a")
    for name, word in (("locks.db", b"claims"), ("locks.db-values", b"cached")):
        file = path.with_name(name)
        # The schema row contains the name twice, then the number of the first page of the table.
        data = re.sub(
            word + word + b".", word[:2] + b"\xff" * 11, file.read_bytes(), flags=re.DOTALL
        )
        file.write_bytes(data)
    with Client(url) as client:
        with pytest.raises(ConfigError, match="is damaged"):
            client.lock("n" * 400).acquire(timeout=1)
        with pytest.raises(ConfigError, match="is damaged"):
            client.guard("g", ttl=60).get(lambda: "b", key="other")


def test_a_damaged_pause_after_a_failure_ends_with_the_failure(path: Path, client: Client) -> None:
    def damage() -> None:
        with contextlib.closing(sqlite3.connect(f"{path}-values", timeout=10)) as books, books:
            books.execute("UPDATE duties SET pause = 1e300")

    a_damaged_pause_ends_with_the_failure(client, "g", damage)
