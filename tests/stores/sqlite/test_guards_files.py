"""The files of refresh guards: deletion, sizes, and reading."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.core.guard.model import EntryState
from holdfast.stores.sqlite.blocking import annex, database, header, way
from holdfast.stores.sqlite.blocking.values import engine as engines
from holdfast.stores.sqlite.blocking.values import files as value_files
from holdfast.testing import lag
from tests.stores.sqlite.products import never, values_of

lag.watch()


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that simulates a boot of the machine, as far as the code can see."""

    def start(number: int) -> None:
        for module in (header, database, value_files):
            monkeypatch.setattr(module, "boot_id", lambda: number)

    return start


def test_after_a_boot_no_value_comes_back_and_a_torn_file_is_no_trouble(
    path: Path, boot: Callable[[int], None]
) -> None:
    boot(1)
    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=600)
        assert guard.get(lambda: "old") == "old"
        before = guard.inspect().version
    with Client(f"sqlite://{path}") as client:
        assert client.guard("g", ttl=600).get(never) == "old"
    # When a power cut loses or tears the last writes, an invalidation among them
    Path(f"{path}-values").write_bytes(b"torn" * 5000)
    boot(2)
    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=600)
        assert guard.inspect().state is EntryState.MISSING
        assert guard.get(lambda: "new") == "new"
        assert guard.inspect().version > before


def test_without_a_boot_id_the_boot_time_identifies_the_boot(
    path: Path, boot: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(0)
    now = {"clock": 5000.0, "wall": 1_800_000_000.0}
    for module in (way, annex, engines):
        monkeypatch.setattr(module, "boottime", lambda: now["clock"])
    monkeypatch.setattr(value_files, "walltime", lambda: now["wall"])

    def look() -> EntryState:
        with Client(f"sqlite://{path}") as client:
            return client.guard("g", ttl=60_000).inspect().state

    with Client(f"sqlite://{path}") as client:
        client.guard("g", ttl=60_000).get(lambda: "old")
    now = {"clock": 5010.0, "wall": 1_800_000_012.0}
    assert look() is EntryState.FRESH
    now = {"clock": 100.0, "wall": 1_800_000_200.0}
    assert look() is EntryState.MISSING


@pytest.mark.parametrize("what", ["database", "gate", "all"])
def test_deleted_files_are_made_again_empty_and_shared_by_all(
    path: Path, what: str, client: Client, other: Client
) -> None:
    ours, theirs = client.guard("g", ttl=600), other.guard("g", ttl=600)
    assert ours.get(lambda: "old") == theirs.get(never) == "old"
    gone = {"database": ["", "-wal", "-shm"], "gate": [".d/gate"]}
    for end in gone.get(what, [*gone["database"], *gone["gate"]]):
        os.unlink(f"{path}-values{end}")
    # When one client writes, then the other sees it, immediately or a moment later
    assert ours.invalidate() in (0, 1)
    assert ours.get(lambda: "new") == "new"
    begun = time.monotonic()
    while theirs.get(lambda: "other") != "new":
        assert time.monotonic() - begun < 2.0 + lag.since(begun)
        time.sleep(0.01)
    assert theirs.invalidate() == 1
    assert ours.inspect().state is EntryState.MISSING
    assert theirs.get(lambda: "again") == ours.get(never) == "again"


def test_expired_values_are_removed_by_later_writes(client: Client) -> None:
    short, other = client.guard("short", ttl=0.05), client.guard("long", ttl=600)
    short.get_many([str(number) for number in range(100)], lambda key: key)
    failing = client.guard("f", ttl=1, failure_ttl=0.05)
    for number in range(20):
        with pytest.raises(AssertionError):
            failing.get(never, key=str(number))
    time.sleep(0.4)
    other.get_many([str(number) for number in range(40)], lambda key: key)
    run = values_of(client)._files.run
    assert run("SELECT count(*) FROM cached").fetchone() == (40,)
    assert run("SELECT count(*) FROM duties").fetchone() == (0,)


def test_the_room_of_old_values_is_used_again(path: Path, client: Client) -> None:
    guard, sizes = client.guard("g", ttl=600), []
    for number in range(240):
        guard.get(lambda: os.urandom(100_000), key=str(number % 8))
        guard.invalidate(str(number % 8))
        sizes.append(sum(os.stat(f"{path}-values{end}").st_size for end in ("", "-wal")))
    print(max(sizes[:80]), max(sizes))
    assert max(sizes) < 1.5 * max(sizes[:80])
    assert max(sizes) < 16 << 20


def test_a_value_may_have_a_mebibyte(client: Client, other: Client) -> None:
    largest = os.urandom((1 << 20) - 1)
    assert client.guard("g", ttl=60).get(lambda: largest) == largest
    assert other.guard("g", ttl=60).get(never) == largest
