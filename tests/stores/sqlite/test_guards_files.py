"""The files of refresh guards: deletion, sizes, and reading."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.core.finding import Level
from holdfast.core.guard.model import EntryState
from holdfast.stores.sqlite.blocking import annex, database, header, way
from holdfast.stores.sqlite.blocking.values import engine as engines
from holdfast.stores.sqlite.blocking.values import files as value_files
from holdfast.testing import lag
from holdfast.url import find
from tests.stores.sqlite.test_rights import fill, root_only

lag.watch()


def never() -> Any:
    raise AssertionError("it is there")


def engine_of(client: Client | AsyncClient) -> Any:
    """Return the engine of a client's refresh guards."""
    return client._ctx.store._port.values().engine  # type: ignore[attr-defined]


# -- a boot, and deleted files --------------------------------------------------------------------


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
def test_deleted_files_are_made_again_empty_and_shared_by_all(path: Path, what: str) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        ours, theirs = here.guard("g", ttl=600), there.guard("g", ttl=600)
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


def test_the_values_database_of_another_program_is_left_unchanged(path: Path) -> None:
    foreign = sqlite3.connect(f"{path}-values")
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.commit()
    foreign.close()
    before = Path(f"{path}-values").read_bytes()
    with Client(f"sqlite://{path}") as client, pytest.raises(ConfigError, match="another app"):
        client.guard("g", ttl=60).get(lambda: "x")
    assert Path(f"{path}-values").read_bytes() == before


def test_a_foreign_value_is_computed_again(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=60)
        guard.get(lambda: "x" * 20_000)
        books = sqlite3.connect(f"{path}-values")
        with pytest.raises(sqlite3.IntegrityError):
            books.execute("UPDATE cached SET data = 'text'")
        books.execute("UPDATE cached SET data = x'ff00'")
        books.commit()
        books.close()
        assert guard.get(lambda: "new") == "new"
        assert guard.get(never) == "new"


def test_the_doctor_looks_at_the_values_too(path: Path) -> None:
    store, url = find(f"sqlite://{path}")
    with Client(f"sqlite://{path}") as client:
        client.lock("x").locked()
        assert not [one for one in store.examine(url) if one.subject == "values"]
        assert not Path(f"{path}-values").exists()
        client.guard("g", ttl=60).get_many(["a", "b"], lambda key: key)
        (found,) = [one for one in store.examine(url) if one.subject == "values"]
        assert found.level is Level.OK
        assert "values: 2" in found.text
        for end in ("", "-wal", ".d/gate"):
            assert stat.S_IMODE(os.stat(f"{path}-values{end}").st_mode) == 0o600


# -- sizes -----------------------------------------------------------------------------------------


def test_expired_values_are_removed_by_later_writes(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        short, other = client.guard("short", ttl=0.05), client.guard("long", ttl=600)
        short.get_many([str(number) for number in range(100)], lambda key: key)
        failing = client.guard("f", ttl=1, failure_ttl=0.05)
        for number in range(20):
            with pytest.raises(AssertionError):
                failing.get(never, key=str(number))
        time.sleep(0.4)
        other.get_many([str(number) for number in range(40)], lambda key: key)
        run = engine_of(client)._files.run
        assert run("SELECT count(*) FROM cached").fetchone() == (40,)
        assert run("SELECT count(*) FROM duties").fetchone() == (0,)


def test_the_room_of_old_values_is_used_again(path: Path) -> None:
    def size() -> int:
        return sum(os.stat(f"{path}-values{end}").st_size for end in ("", "-wal"))

    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=600)
        sizes = []
        for number in range(240):
            guard.get(lambda: os.urandom(100_000), key=str(number % 8))
            guard.invalidate(str(number % 8))
            sizes.append(size())
        print(max(sizes[:80]), max(sizes))
        assert max(sizes) < 1.5 * max(sizes[:80])
        assert max(sizes) < 16 << 20


@root_only
def test_on_a_full_disk_values_are_returned_and_what_is_there_can_be_invalidated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir(0o700)
    if os.system(f"mount -t tmpfs -o size=8m,mode=700 none {disk} 2>/dev/null"):
        pytest.skip("no file system can be mounted here")
    try:
        with Client(f"sqlite://{disk}/locks.db") as client:
            guard = client.guard("g", ttl=600, lease=600)
            assert guard.get(lambda: "there") == "there"
            fill(disk / "filler")
            # When there is no room to store a value, the caller that computed it still gets it soon
            begun = time.monotonic()
            with caplog.at_level(logging.WARNING, "holdfast"):
                for number in range(8):
                    assert guard.get(lambda: b"x" * 900_000, key=str(number))
            assert time.monotonic() - begun < 10 + lag.since(begun)
            assert "was computed, but not stored" in caplog.text
            assert not guard.inspect("7").owner
            # And no old value is stuck
            assert guard.get(never) == "there"
            assert guard.invalidate() == 1
            assert guard.inspect().state is EntryState.MISSING
            (disk / "filler").unlink()
            assert guard.get(lambda: b"y" * 900_000, key="7") == b"y" * 900_000
            assert guard.get(never, key="7") == b"y" * 900_000
    finally:
        os.system(f"umount -l {disk}")


def test_a_value_may_have_a_mebibyte(path: Path) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        largest = os.urandom((1 << 20) - 1)
        assert here.guard("g", ttl=60).get(lambda: largest) == largest
        assert there.guard("g", ttl=60).get(never) == largest
