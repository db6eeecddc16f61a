"""Generations of the files: deletions, kills, boots, and fences that never fall."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.model import Gone, Held, Loss, Refused, Waiting
from holdfast.errors import ConfigError
from holdfast.stores.sqlite import blocking
from holdfast.stores.sqlite.blocking import entry, files, header, world
from holdfast.stores.sqlite.blocking.database import Database
from holdfast.stores.sqlite.blocking.lone import Lone
from holdfast.stores.sqlite.blocking.paths import Place
from holdfast.testing.faults import delete
from tests.fenced.process import Child
from tests.servers.process import until
from tests.stores.sqlite.desk import Clock, Desk, claim

#: What is deleted or replaced: files and folders, by the ends of their names.
GONE = {
    "database": [""],
    "all files": ["", "-wal", "-shm", "-lone", "-opening"],
    "log": ["-wal"],  # as a user could do that takes it for a leftover
    "index of the log": ["-shm"],
    "lone claims": ["-lone"],
    "gate": [".d/gate"],
    "folder": [".d"],
    "replaced": [],
}


def remove(path: Path, what: str) -> None:
    """Delete a part of the store, or put another lock database in the place of this one."""
    if what != "replaced":
        assert delete(*(Path(f"{path}{end}") for end in GONE[what]))
        return
    another = path.with_name(f"other-{path.stat().st_ino}.db")
    with Desk(another) as other:
        assert other.free()
    os.replace(another, path)


@pytest.mark.parametrize("what", GONE)
@pytest.mark.parametrize("contended", [False, True])
def test_a_newcomer_after_a_deletion_waits_for_the_old_holders(
    what: str, contended: bool, path: Path, desk: Callable[..., Desk], clock: Clock
) -> None:
    # Given a holder of two names with 30 s and 20 s to go, one of them with a waiter
    old = desk()
    fence = old.hold(held := claim(ttl=30.0))
    lined = old.hold(leads := claim("lined", ttl=20.0))
    old.join(claim("lined"))
    if contended:
        assert isinstance(old.join(claim()), Waiting)
    # When the files are deleted under it, and a new client comes that doesn't know this
    remove(path, what)
    new = desk()
    # Then no claim is granted while the holder can still rely on its lease
    wanted = claim()
    first = new.join(wanted, wait=False)
    assert isinstance(first, Refused)
    assert 0 < first.retry_in <= 1.0
    waiting = new.join(wanted)
    assert isinstance(waiting, Waiting)
    clock.now += 1.5
    assert isinstance(new.turn(wanted, waiting.ticket), Waiting)
    assert isinstance(new.join(claim("other"), wait=False), Refused)
    # And the next renewal reports the loss to the holder
    assert old.renew(held, fence) == Gone(Loss.SESSION)
    assert old.renew(leads, lined) == Gone(Loss.SESSION)
    assert not old.leave(held, fence)
    # And the new client holds when the last lease of the old files has expired, not before
    while not isinstance(answer := new.turn(wanted, waiting.ticket), Held):
        assert clock.now < 5_032.0
        clock.now += 2.0
    assert clock.now >= 5_030.0
    assert answer.fence > fence
    # And both now use the same files
    assert isinstance(old.join(claim(), wait=False), Refused)
    assert new.leave(wanted, answer.fence)
    assert old.free()


@pytest.mark.parametrize("then", ["database", "gate", "folder"])
@pytest.mark.parametrize("first", GONE)
def test_a_second_deletion_does_not_let_the_old_holders_be_forgotten(
    first: str, then: str, path: Path, desk: Callable[..., Desk], clock: Clock
) -> None:
    # Given a holder with 30 s to go, and a new client that has found the files deleted
    fence = desk().hold(claim(ttl=30.0))
    remove(path, first)
    assert isinstance(desk().join(claim(), wait=False), Refused)
    # When files are deleted again
    clock.now += 1.0
    remove(path, then)
    # Then the next new client still waits for the end of the old lease
    new, wanted = desk(), claim()
    assert isinstance(new.join(wanted), Waiting)
    while not isinstance(answer := new.join(wanted), Held):
        assert clock.now < 5_034.0
        clock.now += 1.0
    assert clock.now >= 5_030.0
    assert answer.fence > fence


def test_files_are_opened_by_one_client_at_a_time_for_any_file_mutex(
    path: Path, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a client that is opening the files
    begun: queue.SimpleQueue[bool] = queue.SimpleQueue()
    go_on = threading.Event()
    inside: list[int] = []

    def agree_slowly(place: Place, page: header.Header, now: float) -> tuple[Database, Lone]:
        inside.append(page.fd)
        begun.put(os.fstat(page.fd).st_ino == os.stat(place.gate).st_ino)
        assert go_on.wait(10)
        assert inside == [page.fd]
        answer = world.agree(place, page, now)
        inside.remove(page.fd)
        return answer

    monkeypatch.setattr(files, "agree", agree_slowly)
    with ThreadPoolExecutor(3) as pool:
        opening = [pool.submit(desk().join, claim(), wait=False)]
        assert begun.get(timeout=10)
        # When its file mutex is deleted, and also the mutex of the next client, which waits for it
        for _ in range(2):
            remove(path, "gate")
            opening.append(pool.submit(desk().join, claim(), wait=False))
            until(Path(f"{path}.d/gate").exists, "the next client has made its mutex")
            # Then no other client begins while the first one is opening the files
            with pytest.raises(queue.Empty):
                begun.get(timeout=0.2)
        go_on.set()
        answers = [one.result(10) for one in opening]
    # And no client begins whose file mutex was deleted before its turn
    while not begun.empty():
        assert begun.get()
    assert sum(isinstance(answer, Held) for answer in answers) <= 1


@pytest.mark.parametrize("what", ["gate", ""])
def test_a_detached_claim_outlives_the_file_mutex(
    what: str, path: Path, desk: Callable[..., Desk]
) -> None:
    # Given claims that depend only on their ttl, no client, and a deleted file mutex or folder
    first = desk()
    lone, lined = claim(), claim("lined")
    fences = [first.hold(lone), first.hold(lined)]
    first.join(claim("lined"))
    for held, fence in zip((lone, lined), fences, strict=True):
        assert isinstance(first.change(held, fence, detach=True), Held)
    first.close()
    gone = path.with_name("locks.db.d") / what
    gone.unlink() if gone.is_file() else shutil.rmtree(gone)
    # When a new client comes, then it finds these claims held, and other names free
    new = desk()
    assert isinstance(new.join(claim(), wait=False), Refused)
    assert isinstance(new.join(claim("lined"), wait=False), Refused)
    assert isinstance(new.join(later := claim("another"), wait=False), Held)
    # And the claims can be released and adopted, and fences continue to rise
    assert new.leave(lone, fences[0])
    fresh = claim("lined")
    adopted = new.change(lined, fences[1], new_id=fresh.id)
    assert adopted == Held(fences[1], 30.0)
    assert new.leave(fresh, fences[1])
    assert min(line.claims[0].fence for line in new.lines()) > max(fences)
    assert new.leave(later)


def test_a_deleted_session_is_made_again_and_death_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch, here: Desk
) -> None:
    # Given a holder whose session file was deleted
    def holder(child: Child) -> None:
        here = Desk(path)
        here.hold(claim())
        here.hold(claim("lined"))
        here.join(claim("lined"))
        shutil.rmtree(path.with_name("locks.db.d") / "sessions")
        # When the holder notices that, in a join a second later
        entry.LOOK_EVERY_S = 0.0
        here.engine._files.look_at = 0.0
        here.hold(claim("another"))
        child.say("ready")
        signal.pause()

    with Child(holder) as child:
        assert child.hear() == "ready"
        assert not here.free()
        assert not here.free("lined")
        child.send(signal.SIGKILL)
        child.end()
    # Then its death frees all of its names, earlier ones included
    assert here.free()
    assert here.free("lined")


def test_a_session_that_is_missing_proves_nothing(path: Path, here: Desk, there: Desk) -> None:
    # Given a living holder whose session file was deleted
    fence = here.hold(held := claim())
    (path.with_name("locks.db.d") / "sessions" / here.engine._session.name).unlink()
    # When another client requests the lock, then the holder's lease counts
    assert isinstance(there.join(claim(), wait=False), Refused)
    assert isinstance(here.renew(held, fence), Held)
    assert here.leave(held, fence)


@pytest.mark.parametrize("torn", [False, True], ids=["reboot", "power cut"])
def test_after_a_boot_all_claims_are_dead_and_a_new_claim_holds(
    torn: bool, path: Path, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given claims of all sorts, detached ones too, and a machine that was booted
    with Desk(path) as old:
        fence = old.hold(held := claim(ttl=3600.0))
        old.change(held, fence, detach=True)
        old.join(claim())
        last = old.hold(claim("lone", ttl=3600.0))
        limit = old.engine._files.words[header.LIMIT]
    if torn:  # random bytes in the files after a power cut
        for end, size in (("", 20_000), ("-lone", 20_000), ("-wal", 5_000)):
            with open(f"{path}{end}", "r+b" if end != "-wal" else "wb") as raw:
                raw.write(os.urandom(size))
    for module in (header, world, blocking.database):
        monkeypatch.setattr(module, "boot_id", lambda: 0xB007)
    # When a client comes, then nothing is held
    new = desk()
    assert new.lines() == []
    # And its fence is greater than all fences that can have been granted before
    answer = new.join(claim(), wait=False)
    assert isinstance(answer, Held)
    assert answer.fence >= limit > last


def test_another_time_namespace_is_refused(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that is in use, and a container with a different clock
    assert desk().free()
    monkeypatch.setattr(header, "time_space", lambda: 77)
    # When the container opens the store, then it gets an error
    with pytest.raises(ConfigError, match="time namespace"):
        desk().join(claim())


@pytest.mark.parametrize("moment", range(12))
def test_killed_while_it_makes_the_store_the_next_one_makes_it(
    moment: int, path: Path, here: Desk
) -> None:
    # Given a process that is killed at one of the system calls of the very first opening
    def opens(child: Child) -> None:
        calls = 0

        def count(event: str, args: tuple[object, ...]) -> None:
            nonlocal calls
            calls += event in ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect")
            if calls > moment and event != "os.kill":
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        Desk(path).free()

    with Child(opens) as child:
        child.end()
    # When the next client comes, then it works
    assert here.free()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)


@pytest.mark.parametrize("renewed", [False, True])
def test_claims_survive_a_kill_between_table_and_database(
    renewed: bool, path: Path, desk: Callable[..., Desk], here: Desk
) -> None:
    # Given a lone claim, and a process that joins behind it and is killed after the commit, before
    # it can free the claim's slot
    fence = here.hold(held := claim())

    def joins(child: Child) -> None:
        there = Desk(path)
        assert there.free("elsewhere")
        lone = there.engine._files.lone
        lone.free = lambda slot: os.kill(os.getpid(), signal.SIGKILL)
        there.join(claim())

    with Child(joins) as child:
        assert child.end() == -signal.SIGKILL
    assert here.engine._files.lone.find("refund") is not None
    if renewed:
        # Then it is held once, by its owner
        assert [c.fence for c in here.lines()[0].claims] == [fence]
        assert isinstance(desk().join(claim(), wait=False), Refused)
        assert isinstance(here.renew(held, fence), Held)
    # And after its release the name is free
    assert here.leave(held, fence)
    assert here.lines() == []
    assert desk().free()
