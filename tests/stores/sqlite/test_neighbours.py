"""Foreign files among the store's files: a user of a shared folder must not use holdfast against
others.

As root, the neighbour is another user of the folder's group. Otherwise it is another process of
this user, in a private folder. That shows everything except what access rights would prevent.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.errors import ConfigError, HoldfastError
from holdfast.stores.sqlite.blocking.doctor import examine
from holdfast.url import find
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim

ROOT = os.geteuid() == 0
MEMBER, GROUP = 65_534, 7777
#: Maximum seconds for all verbs of a store with a foreign file, together.
BOUND_S = 30.0
#: Suffixes of the files that a store makes for locks, queues and values, next to its database.
MADE = ("-wal", "-shm", "-journal", ".d", ".d/gate", ".d/new.db", ".d/sessions")
FILES = [
    "locks.db", *(f"locks.db{end}" for end in MADE), "locks.db-lone", "locks.db-opening",
    *(f"locks.db-{kind}{end}" for kind in ("queues", "values") for end in ("", *MADE, ".d/idle")),
]  # fmt: skip
#: Files of one session or of one waiter, whose names are random.
DRAWN = re.compile(r"locks\.db(-queues|-values)?\.d/(sessions|idle)/[^/]+")


def _socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(path)


#: Functions that put something in the place of a file; they get the path and the victims' folder.
THINGS: dict[str, Callable[[str, Path], object]] = {
    "a link to a file": lambda path, victims: os.symlink(victims / "secret", path),
    "a link to an empty file": lambda path, victims: os.symlink(victims / "empty", path),
    "a link to a folder": lambda path, victims: os.symlink(victims / "folder", path),
    "a link to nowhere": lambda path, victims: os.symlink(victims / "nowhere", path),
    "another name of a file": lambda path, victims: os.link(victims / "secret", path),
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a socket": lambda path, _: _socket(path),
    "a folder": lambda path, _: os.mkdir(path),
}


def _share(folder: Path) -> None:
    """Make a folder that a group shares, if this user is root; else a private one."""
    folder.mkdir(0o700)
    if ROOT:
        os.chown(folder, 0, GROUP)
        folder.chmod(0o2770)


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that a group shares, and victims next to it that only this user can access."""
    with tempfile.TemporaryDirectory(prefix="holdfast-neighbours-") as name:
        top = Path(name)
        top.chmod(0o755)
        _share(top / "shared")
        folder = top / "victims" / "folder"
        folder.mkdir(parents=True)
        (top / "victims" / "secret").write_bytes(b"precious")
        (top / "victims" / "empty").touch()
        for kept in ("gate", "new.db", "locks.db", "0123456789abcdef", "a-b-c-d"):
            (folder / kept).write_bytes(b"precious")
        yield top


def _state(victims: Path) -> list[tuple[object, ...]]:
    """Return everything that can change about the victims, except their numbers of hard links."""
    found = []
    for path in sorted(victims.rglob("*")):
        info, content = path.lstat(), path.read_bytes() if path.is_file() else b""
        found.append((str(path), info.st_mode, info.st_uid, info.st_gid, content))
    return found


def _become_member() -> None:
    if ROOT:
        os.setgroups([GROUP])
        os.setgid(MEMBER)
        os.setuid(MEMBER)


def _use(path: Path) -> list[str]:
    """Use every verb of every kind of store; return the texts of holdfast's errors."""
    told: list[str] = []
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:

        def locks() -> None:
            with here.lock("x", timeout=0.2):
                assert there.lock("x").acquire(timeout=0.05) is None, "two holders"

        def queues() -> None:
            here.queue("q").put(1)
            job = there.queue("q").take(timeout=0.05)
            assert job is not None
            job.ack()

        for step in (
            locks,
            queues,
            lambda: here.guard("g", ttl=5).get(lambda: 1),
            lambda: here.inspect("x"),
            lambda: list(examine(find(f"sqlite://{path}")[1])),
        ):
            try:
                step()
            except HoldfastError as wrong:
                told.append(str(wrong))
    return told


@pytest.mark.usual(6)
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("before", [True, False], ids=["before the first use", "in use"])
def test_nothing_outside_the_folder_is_touched_whatever_lies_in_it(
    thing: str, before: bool, top: Path
) -> None:
    victims = top / "victims"
    was = _state(victims)
    # All files for the first thing; a part of the files, with a different start, for each other
    # thing.
    place = list(THINGS).index(thing)
    files = FILES if before and not place else FILES[place % 3 :: 3 if before else 5]
    for number, name in enumerate(files):
        # Given a store, made or not, and a neighbour that puts something in the place of a file
        path = top / "shared" / f"{number}" / "locks.db"
        _share(path.parent)
        if not before:
            _use(path)
        _put(thing, path.parent / name, victims)
        # When all verbs of the store are used
        begun = time.monotonic()
        told = _use(path)
        # Then they work or raise errors of holdfast, within a bound, and no victim is changed
        assert time.monotonic() - begun < BOUND_S, (name, told)
        assert _state(victims) == was, (name, told)


def test_the_neighbour_knows_all_files_that_a_store_makes(top: Path) -> None:
    path, go, over = top / "shared" / "locks.db", threading.Event(), threading.Event()
    seen = set[str]()

    def watch() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                seen.update(str(one.relative_to(path.parent)) for one in path.parent.rglob("*"))

    def value() -> str:
        go.wait(10)
        return "value"

    # Given a store with waiters for a lock, a job and a value
    url = f"sqlite://{path}"
    with ThreadPoolExecutor(5) as pool, Client(url) as here, Client(url) as there:
        pool.submit(watch)
        hold = here.lock("x").acquire()
        waiting = [
            pool.submit(there.lock("x").acquire, timeout=10),
            pool.submit(there.queue("q").take, timeout=10),
            pool.submit(here.guard("g", ttl=5).get, value),
            pool.submit(there.guard("g", ttl=5).get, value),
        ]
        time.sleep(0.5)
        go.set()
        hold.release()
        here.queue("q").put(1)
        for one in waiting:
            one.result(20)
        over.set()
    # Then each file is in the list of files that the neighbour replaces
    assert {one for one in seen if not DRAWN.fullmatch(one)} - set(FILES) == set()
    assert len(seen) > 20


def _put(thing: str, there: Path, victims: Path) -> None:
    """Replace a file by a thing; the neighbour does it if it has the right."""

    def place() -> None:
        there.parent.mkdir(0o2770, exist_ok=True)
        if there.is_symlink() or there.exists():
            there.rename(there.with_name(there.name + ".away"))
        THINGS[thing](str(there), victims)

    def works(child: Child) -> None:
        _become_member()
        place()
        child.say("put")

    with Child(works) as child:
        if child.hear() != "put":
            place()  # A link to a file that isn't its own is refused to it.


def test_a_session_is_no_path(top: Path) -> None:
    # Given a store in which a neighbour has written paths in the place of session names
    path, victim = top / "shared" / "locks.db", top / "victims" / "secret"
    with Desk(path) as first, Desk(path) as second:
        fence = first.hold(held := claim())
        second.join(claim())
        second.join(claim())
        writer = sqlite3.connect(path)
        for session in ("../../../victims/secret", str(victim), "..", "a\0b", "0" * 17):
            writer.execute("UPDATE claims SET session = ? WHERE ticket > 0", (session,))
            writer.commit()
            # When other clients check whether these sessions have ended, and clean up
            with Desk(path) as third:
                third.join(claim(), wait=False)
                third.engine._graves.add(session)
                third.lines()
            # Then the paths are no sessions, and nothing is removed
            assert victim.read_bytes() == b"precious"
        writer.close()
        assert first.leave(held, fence)


def test_a_socket_replaced_by_a_link_changes_no_file_mode(top: Path) -> None:
    # Given a neighbour that turns each new socket into a link to a file of another user
    path, victim = top / "shared" / "locks.db", top / "victims" / "secret"
    victim.chmod(0o600)
    with Desk(path) as here:
        here.hold(claim())
        sessions = f"{path}.d/sessions"

        def swaps(child: Child) -> None:
            _become_member()
            child.say("begun")
            end = time.monotonic() + 4.0
            while time.monotonic() < end:
                for name in os.listdir(sessions):
                    if "." in name and not os.path.islink(f"{sessions}/{name}"):
                        try:
                            os.unlink(f"{sessions}/{name}")
                            os.symlink(victim, f"{sessions}/{name}")
                        except OSError:
                            continue

        with Child(swaps) as child:
            assert child.hear() == "begun"
            end = time.monotonic() + 3.0
            # When sockets are made repeatedly
            while time.monotonic() < end:
                for _ in range(20):
                    box = here.engine._files.post.open_box("0123456789abcdef")
                    if box is not None:
                        box.close()
                # Then the file keeps its mode
                assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_a_wake_up_follows_no_link(top: Path) -> None:
    # Given a socket of another program, and a link to it in the place of a waiter's socket
    path = top / "shared" / "locks.db"
    outside = str(top / "victims" / "outside")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, Desk(path) as desk:
        other.bind(outside)
        other.setblocking(False)
        assert desk.free()
        name = "0123456789abcdef.1"
        os.symlink(outside, f"{path}.d/sessions/{name}")
        # When the store sends the wake-up to this waiter
        desk.engine._files.post.send(name, "0" * 32, 1)
        desk.engine._files.post.send("../../../victims/outside", "0" * 32, 1)
        # Then nothing is sent outside of the folder, if the folder is shared
        if ROOT:
            with pytest.raises(BlockingIOError):
                other.recv(100)


@pytest.mark.skipif(not ROOT, reason="only root can become a user that may only read")
@pytest.mark.parametrize("what", ["folder", "every file"])
def test_a_user_who_can_only_read_the_folder_blocks_no_client(what: str, top: Path) -> None:
    # Given a folder that all users can list, and a stranger that locks every file it can open
    folder = top / "shared"
    os.chown(folder, 0, 0)
    folder.chmod(0o755)
    path = folder / "locks.db"
    with Desk(path) as first:
        assert first.free()

    def locks(child: Child) -> None:
        os.setgroups([])
        os.setgid(MEMBER)
        os.setuid(MEMBER)
        kept = []
        for one in [folder, *(folder.rglob("*") if what != "folder" else ())]:
            try:
                kept.append(os.open(one, os.O_RDONLY | os.O_NONBLOCK))
                fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
        child.say("locked")
        time.sleep(60)

    with Child(locks) as child:
        assert child.hear() == "locked"
        # When a client opens the store, then it is granted immediately
        begun = time.monotonic()
        with Desk(path) as late:
            assert late.free()
        assert time.monotonic() - begun < 5.0


def test_a_group_without_the_setgid_bit_is_refused(top: Path) -> None:
    folder = top / "shared"
    if ROOT:
        os.chown(folder, 0, GROUP)
    folder.chmod(0o775)
    if folder.stat().st_gid == folder.stat().st_uid:
        pytest.skip("the group of this user is its own")
    with pytest.raises(ConfigError, match="setgid"):
        Desk(folder / "locks.db").join(claim())


def test_another_name_of_the_database_is_no_second_store(top: Path) -> None:
    # Given a store whose database has a second name in the same folder
    path = top / "shared" / "locks.db"
    with Desk(path) as here:
        here.hold(claim())
        os.link(path, top / "shared" / "other.db")
        # When a client locks there, then both names are refused, and the error names hard links
        for one in ("other.db", "locks.db"):
            with pytest.raises(ConfigError, match="hard links"):
                Desk(top / "shared" / one).join(claim())


def test_a_foreign_rollback_journal_is_refused(top: Path) -> None:
    # Given a neighbour's rollback journal, which names a file that SQLite would delete
    path = top / "shared" / "locks.db"
    with Desk(path) as first:
        assert first.free()
    victim = top / "victims" / "secret"
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    # When the store is opened, then the error names the journal, and nothing is deleted
    with pytest.raises(ConfigError, match="rollback journal"):
        Desk(path).join(claim())
    assert victim.exists()
