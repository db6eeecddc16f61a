"""Access rights to the store's folder: users and groups. Root sets them up."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.errors import ConfigError
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faces import FACES
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim
from tests.stores.sqlite.products import Use, each_product, gets, job

NOBODY, GROUP = 65_534, 7777
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


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


def as_user(work: Callable[[], object], *groups: int) -> str:
    """Do the work in a process of another user; return the error about the configuration."""

    def works(child: Child) -> None:
        os.setgroups(groups)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            work()
        except ConfigError as wrong:
            child.say(wrong)
        else:
            child.say("no error")

    with Child(works) as child:
        return child.hear()


def locks(place: Path | str) -> None:
    assert Desk(place).free()


def test_another_users_folder_is_refused_unless_root_shares_it_with_a_group(path: Path) -> None:
    for owner, mode, says in (
        (0, 0o755, "belongs to another user"),
        (0, 0o775, "belongs to another user"),
        (12345, 0o2775, "belongs to another user"),
        (0, 0o2775, "no error"),
    ):
        os.chown(path.parent, owner, NOBODY)
        path.parent.chmod(mode)
        assert says in as_user(lambda: locks(path)), (owner, mode)


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


@pytest.mark.parametrize("where", PLACES)
def test_the_remedy_for_a_folder_of_another_user_works(path: Path, where: str) -> None:
    # Given a user that names a file in such a folder
    PLACES[where](path.parent)
    told = as_user(lambda: locks(path))
    # When that user, or root if the error asks for root, runs the command for a single user from
    # the error
    words = (
        r"(as root, )?(mkdir (?:-p )?-m 700 \S+(?: && chown -h \S+ \S+)?)(?: for a user alone|$)"
    )
    found = re.search(words, told)
    assert found, told

    def run() -> None:
        subprocess.run(["sh", "-c", found[2]], check=True)

    if found[1]:
        run()
    # Then the file that the error names can be used
    named = re.search(r"\(sqlite://(\S+)\)", told)
    place = named[1] if named else path
    assert as_user(lambda: (found[1] or run(), locks(place))) == "no error"


@pytest.mark.usual(3)
@each_product
def test_a_group_shares_a_folder(path: Path, use: Use) -> None:
    # Given a folder that root owns and a group can write to, and root that has something in it
    os.chown(path.parent, 0, GROUP)
    path.parent.chmod(0o2770)
    url, go, over, done = f"sqlite://{path}", threading.Event(), threading.Event(), list[str]()

    async def slow() -> str:
        go.wait(20)
        return "value"

    async def main() -> None:
        async with FACES["sync"].client(url) as client:
            if use is job:
                await client.queue("q").put_many(range(3), group="g")
            await use(client, slow, 5.0)
            over.wait(20)
            await use(client, slow, 5.0)
        done.append("by root")

    root = threading.Thread(target=lambda: run_sync(main()))
    root.start()
    time.sleep(0.3)
    threading.Timer(0.5, go.set).start()
    # When a member of the group, under another user id, waits for it
    assert as_user(lambda: gets(url, use, 20.0), GROUP) == "no error"
    # Then the member gets it after root, and root after the member
    assert go.is_set()
    over.set()
    root.join(30)
    assert done
    files = [*path.parent.glob("*"), *path.parent.glob("*.d/gate")]
    files = [one for one in files if one.is_file() and not one.name.endswith("-opening")]
    assert len(files) >= 2
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o660, file
        assert file.stat().st_gid == GROUP


@pytest.mark.parametrize("what", ["folder", "database", "gate"])
def test_what_cannot_be_written_is_one_clear_error(what: str, path: Path) -> None:
    # Given a store of a user that then loses the right to write a part of it
    folder = path.parent
    os.chown(folder, NOBODY, NOBODY)
    folder.chmod(0o700)
    parts = {"folder": folder, "database": path, "gate": Path(f"{path}.d/gate")}

    def works() -> None:
        if what != "folder":
            with Desk(path) as first:
                assert first.free()
        parts[what].chmod(0o500)
        Desk(path).join(claim())

    # When the user locks there, then the error names the file and the remedy
    told = as_user(works)
    assert "Permission denied" in told
    assert "correct the permissions" in told
    assert str(path) in told
