"""Access rights to the store's folder: users, groups, read-only and full disks. Most need root."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.errors import ConfigError, StoreUnavailable
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim

NOBODY = 65_534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture(autouse=True, scope="module")
def _used_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import everything that a store needs, before a child changes to a user that can't read the
    library."""
    with Client(f"sqlite://{tmp_path_factory.mktemp('once')}/locks.db") as client:
        client.lock("x").acquire().release()


@pytest.fixture
def path() -> Iterator[Path]:
    """A database that doesn't exist yet, in a folder that all users can reach. The folders of
    pytest can't be used: pytest makes their parent folder private at each start."""
    with tempfile.TemporaryDirectory(prefix="holdfast-rights-") as top:
        Path(top).chmod(0o755)
        folder = Path(top) / "folder"
        folder.mkdir()
        yield folder / "locks.db"


@root_only
def test_another_users_folder_is_refused_unless_root_shares_it_with_a_group(path: Path) -> None:
    # Given a user that isn't root, and folders with different owners and modes
    folder = path.parent
    cases = [
        (0, 0o755, "belongs to another user"),
        (0, 0o775, "belongs to another user"),
        (12345, 0o2775, "belongs to another user"),
        (0, 0o2775, "sets no error"),
    ]
    for owner, mode, says in cases:
        os.chown(folder, owner, NOBODY)
        folder.chmod(mode)

        def tries(child: Child) -> None:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            here = Desk(path)
            try:
                assert here.free()
                child.say("sets no error")
                here.close()
            except ConfigError as wrong:
                child.say(wrong)

        # When this user locks there, then only the last folder is accepted
        with Child(tries) as child:
            assert says in child.hear(), (owner, mode)


def _private(owner: int) -> Callable[[Path], None]:
    def lay(folder: Path) -> None:
        folder.chmod(0o700)
        os.chown(folder, owner, owner)

    return lay


def _private_in_a_common_one(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    _private(12345)(folder)


#: Folders in which a user can't have a file: root's folder, a missing one that only root can make,
#: root's private one, and another user's private one inside a shared folder.
PLACES: dict[str, Callable[[Path], None]] = {
    "of root": lambda folder: None,
    "missing": lambda folder: folder.rmdir(),
    "private of root": _private(0),
    "private of another": _private_in_a_common_one,
}


@root_only
@pytest.mark.parametrize("where", PLACES)
def test_the_remedy_for_a_folder_of_another_user_works(path: Path, where: str) -> None:
    def tries(place: str, made: str = "true") -> Callable[[Child], None]:
        def run(child: Child) -> None:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                subprocess.run(["sh", "-c", made], check=True)
                assert Desk(Path(place)).free()
                child.say("free")
            except ConfigError as wrong:
                child.say(wrong)

        return run

    # Given a user that names a file in such a folder
    PLACES[where](path.parent)
    with Child(tries(str(path))) as child:
        told = child.hear()
    # When that user, or root if the error asks for root, runs the command for a single user from
    # the error
    words = (
        r"(as root, )?(mkdir (?:-p )?-m 700 \S+(?: && chown -h \S+ \S+)?)(?: for a user alone|$)"
    )
    found = re.search(words, told)
    assert found, told
    if found[1]:
        subprocess.run(["sh", "-c", found[2]], check=True)
    # Then the file that the error names can be used
    named = re.search(r"\(sqlite://(\S+)\)", told)
    place = named[1] if named else str(path)
    with Child(tries(place, "true" if found[1] else found[2])) as child:
        assert child.hear() == "free"


@root_only
def test_a_group_shares_a_folder(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a folder that root owns and a group can write to, and a lock that root holds in it
    folder = path.parent
    os.chown(folder, 0, 7777)
    folder.chmod(0o2770)
    here = desk()
    fence = here.hold(held := claim())

    def member(child: Child) -> None:
        os.setgroups([7777])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        there, wanted = Desk(path), claim()
        assert not there.free()
        child.say("waits")
        child.say(there.hold(wanted))
        assert there.leave(wanted)
        there.close()

    with Child(member) as child:
        # When a member of the group, under another user id, waits for the lock
        assert child.hear() == "waits"
        assert here.leave(held, fence)
        # Then the member gets it, and root after that
        assert int(child.hear()) > fence
        assert child.end() == 0
    assert here.free()
    for file in (path, folder / "locks.db.d" / "gate", folder / "locks.db-lone"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o660, file
        assert file.stat().st_gid == 7777


@root_only
@pytest.mark.parametrize("what", ["folder", "database", "gate"])
def test_what_cannot_be_written_is_one_clear_error(what: str, path: Path) -> None:
    # Given a store of a user that then loses the right to write a part of it
    folder = path.parent
    os.chown(folder, NOBODY, NOBODY)
    folder.chmod(0o700)

    def works(child: Child) -> None:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        if what != "folder":
            first = Desk(path)
            assert first.free()
            first.close()
        {
            "folder": folder,
            "database": path,
            "gate": path.with_name("locks.db.d") / "gate",
        }[what].chmod(0o500)
        try:
            Desk(path).join(claim())
        except ConfigError as wrong:
            child.say(wrong)

    # When the user locks there, then the error names the file and the remedy
    with Child(works) as child:
        told = child.hear()
        assert "Permission denied" in told
        assert "correct the permissions" in told
        assert str(path) in told


@root_only
def test_a_full_disk_takes_nothing_in_and_lets_everything_go(tmp_path: Path) -> None:
    # Given a separate small disk
    disk = tmp_path / "disk"
    disk.mkdir(0o700)
    if os.system(f"mount -t tmpfs -o size=8m,mode=700 none {disk} 2>/dev/null"):
        pytest.skip("no file system can be mounted here")
    try:
        _fill_and_leave(disk)
    finally:
        os.system(f"umount -l {disk}")


def _fill_and_leave(disk: Path) -> None:
    path = disk / "locks.db"
    here, there = Desk(path), Desk(path)
    # Given a lone claim, a holder, and a waiter in line behind it
    lone, held = claim("lone"), claim("busy")
    fences = here.hold(lone), here.hold(held)
    there.join(waiter := claim("busy"))
    # When the disk is full to the last byte
    fill(disk / "filler")
    full = 0
    while full < 3:
        try:
            here.join(claim("busy", owner="late"))
        except StoreUnavailable as wrong:
            full += "is full" in str(wrong)
    # Then a claim without room gets an error and isn't in line, and every held lock can be released
    assert here.leave(lone, fences[0])
    assert here.leave(held, fences[1])
    assert there.leave(waiter)
    for line in here.lines():
        for record in line.claims:
            assert record.owner == "late"
    here.close()
    there.close()
    # And a new client is granted or gets an error; once there is room again, it is granted
    fresh = Desk(path)
    with contextlib.suppress(StoreUnavailable):
        assert fresh.free("another")
    (disk / "filler").unlink()
    assert fresh.free("another")
    fresh.close()


def fill(path: Path) -> None:
    """Fill the disk until no byte is free."""
    with open(path, "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
