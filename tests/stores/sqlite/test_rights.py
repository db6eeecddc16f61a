"""Who may use the place: users, groups, read-only and full disks. Most need root to set up."""

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
    """Load all that a store needs, before a child becomes somebody who may not read our library."""
    with Client(f"sqlite://{tmp_path_factory.mktemp('once')}/locks.db") as client:
        client.lock("x").acquire().release()


@pytest.fixture
def path() -> Iterator[Path]:
    """A database that doesn't exist yet, in a folder that everybody can reach: pytest closes the
    one above its own to others each time that it is started."""
    with tempfile.TemporaryDirectory(prefix="holdfast-rights-") as top:
        Path(top).chmod(0o755)
        folder = Path(top) / "folder"
        folder.mkdir()
        yield folder / "locks.db"


@root_only
def test_another_users_folder_is_refused_unless_root_shares_it_with_a_group(path: Path) -> None:
    # Given somebody who is not root, and folders of several kinds
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

        # When he wants to lock there, then the last one only is taken
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


#: Where a user can't have a file: in root's folder, in one that isn't there and that root alone
#: can make, in root's private one, in that of another user, which stands in one for all.
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

    # Given a user who names a file in such a folder
    PLACES[where](path.parent)
    with Child(tries(str(path))) as child:
        told = child.hear()
    # When that user, or root if the error says so, does what it says for a user alone
    words = (
        r"(as root, )?(mkdir (?:-p )?-m 700 \S+(?: && chown -h \S+ \S+)?)(?: for a user alone|$)"
    )
    found = re.search(words, told)
    assert found, told
    if found[1]:
        subprocess.run(["sh", "-c", found[2]], check=True)
    # Then the file that it names can be used
    named = re.search(r"\(sqlite://(\S+)\)", told)
    place = named[1] if named else str(path)
    with Child(tries(place, "true" if found[1] else found[2])) as child:
        assert child.hear() == "free"


@root_only
def test_a_group_shares_a_folder(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a folder that root owns and a group may write to, and a lock that root holds in it
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
        # When a member of the group, who is another user, waits for it
        assert child.hear() == "waits"
        assert here.leave(held, fence)
        # Then he gets it, and root after him
        assert int(child.hear()) > fence
        assert child.end() == 0
    assert here.free()
    for file in (path, folder / "locks.db.d" / "gate", folder / "locks.db-lone"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o660, file
        assert file.stat().st_gid == 7777


@root_only
@pytest.mark.parametrize("what", ["folder", "database", "gate"])
def test_what_cannot_be_written_is_one_clear_error(what: str, path: Path) -> None:
    # Given a store of a user who then loses the right to write a part of it
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

    # When he uses it, then the error names the file, and what it needs
    with Child(works) as child:
        told = child.hear()
        assert "Permission denied" in told
        assert "correct the permissions" in told
        assert str(path) in told


@root_only
def test_a_full_disk_takes_nothing_in_and_lets_everything_go(tmp_path: Path) -> None:
    # Given a small disk of its own
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
    # With a lone claim, a holder, and a line behind it
    lone, held = claim("lone"), claim("busy")
    fences = here.hold(lone), here.hold(held)
    there.join(waiter := claim("busy"))
    # When it is full to the last byte
    fill(disk / "filler")
    full = 0
    while full < 3:
        try:
            here.join(claim("busy", owner="late"))
        except StoreUnavailable as wrong:
            full += "is full" in str(wrong)
    # Then what has no room is told so and is not in line, and everything that is held can be left
    assert here.leave(lone, fences[0])
    assert here.leave(held, fences[1])
    assert there.leave(waiter)
    for line in here.lines():
        for record in line.claims:
            assert record.owner == "late"
    here.close()
    there.close()
    # And a newcomer is served or told, and served in any case when there is room again
    fresh = Desk(path)
    with contextlib.suppress(StoreUnavailable):
        assert fresh.free("another")
    (disk / "filler").unlink()
    assert fresh.free("another")
    fresh.close()


def fill(path: Path) -> None:
    """Leave not a byte free."""
    with open(path, "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
