"""Places of the store: a refused place is left unchanged, and the error names a remedy."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.core.model import Held
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.stores.sqlite.blocking import folder as folders
from holdfast.stores.sqlite.blocking import place
from holdfast.stores.sqlite.blocking.folder import Folder, folder
from holdfast.stores.sqlite.blocking.paths import Place
from holdfast.url import find
from tests.stores.sqlite.desk import Desk, claim


def refused(desk: Callable[..., Desk], says: str) -> str:
    """Check that the store is refused with these words, and return all words."""
    with pytest.raises(ConfigError, match=says) as told:
        desk().join(claim())
    return str(told.value)


def test_files_are_private_whatever_the_umask(
    path: Path, client: Client, desk: Callable[..., Desk]
) -> None:
    # Given a process whose umask allows all users to read its files
    before = os.umask(0)
    try:
        # When clients hold a lock, wait for it, put a job and compute a value
        desk().hold(claim())
        desk().join(claim())
        client.queue("q").put("x")
        client.guard("g", ttl=60).get(lambda: "x")
    finally:
        os.umask(before)
    # Then every file is still private
    files = [*path.parent.rglob("*")]
    assert len(files) >= 18
    for file in files:
        assert stat.S_IMODE(file.lstat().st_mode) & 0o077 == 0, file


def test_the_umask_is_never_touched(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(mask: int) -> int:
        raise AssertionError("another thread may be making a file")

    monkeypatch.setattr(os, "umask", touched)
    assert desk().free()


def test_the_default_is_a_private_folder_in_the_users_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a home that has no state folder yet
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here = Desk("")
    assert here.store.label == f"sqlite://{tmp_path}/state/holdfast/locks.db"
    # When the default is used
    assert here.free()
    # Then its folder is made, for this user only
    assert stat.S_IMODE((tmp_path / "state" / "holdfast").stat().st_mode) == 0o700
    assert (tmp_path / "state" / "holdfast" / "locks.db").is_file()
    here.close()


@pytest.mark.parametrize(
    "url, says",
    [
        ("sqlite://relative/locks.db", "begins with the third slash"),
        ("sqlite:///nowhere/at/all/locks.db", "mkdir -p"),
        ("sqlite:///tmp/", "not of a folder"),
        ("sqlite:///tmp/locks.db", "mkdir -m 700 /tmp/holdfast|Name a file in /tmp/holdfast"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Desk(url.removeprefix("sqlite://")).join(claim())


@pytest.mark.usual(2)
@pytest.mark.parametrize("mode", [0o1777, 0o777])
def test_a_folder_that_any_user_can_write_to_is_refused(
    mode: int, path: Path, desk: Callable[..., Desk]
) -> None:
    path.parent.chmod(mode)
    # When a client locks there, then the remedy changes no existing folder, and nothing is made
    assert "chmod" not in refused(desk, "mkdir -m 700")
    assert not list(path.parent.iterdir())
    path.parent.chmod(0o700)
    assert desk().free()


@pytest.mark.parametrize("there", ["nothing", "folder", "open", "link"])
def test_the_remedy_changes_nothing_that_is_there(
    there: str, path: Path, desk: Callable[..., Desk], tmp_path: Path
) -> None:
    # Given an unsuitable folder, and perhaps a file or folder with the name that the error proposes
    own, target = path.parent / "holdfast", tmp_path / "elsewhere"
    target.mkdir(0o755)
    if there == "link":
        own.symlink_to(target)
    elif there != "nothing":
        own.mkdir()
        own.chmod(0o777 if there == "open" else 0o750)
    path.parent.chmod(0o1777)
    before = stat.S_IMODE(own.stat().st_mode) if own.exists() else 0
    # When the user runs the command from the error
    told = refused(desk, "sqlite://")
    if found := re.search(r"(?:install|mkdir) .*? (?=for a user alone)", told):
        subprocess.run(["sh", "-c", found[0]], check=True)
    # Then the file that the error names can be used, and an existing folder is unchanged
    named = re.search(r"\(sqlite://(\S+)\)", told)
    assert named, told
    assert Desk(named[1]).free()
    if there != "nothing":
        assert stat.S_IMODE(own.stat().st_mode) == before
    assert not list(target.iterdir())


#: The file in place of the database, and the text of the error about it.
OTHERS: dict[str, tuple[bytes, str]] = {
    "a link": (b"", r"symbolic link.*elsewhere\.db"),
    "a folder": (b"", "not a plain file"),
    "text": (b"no database, but long enough for one" * 9, "not a SQLite"),
    "short text": (b"short", "not a SQLite"),
    "a torn database": (b"SQLite format 3\0" + b"\xff" * 4096, "another application"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_database_is_left_unchanged(
    what: str, path: Path, desk: Callable[..., Desk]
) -> None:
    content, says = OTHERS[what]
    if what == "a link":
        path.symlink_to("elsewhere.db")
    elif what == "a folder":
        path.mkdir()
    else:
        path.write_bytes(content)
    # When it is opened as a lock database, then the error names it, and it is unchanged
    assert str(path) in refused(desk, says)
    assert content == (path.read_bytes() if path.is_file() else b"")
    names = {one.name for one in path.parent.iterdir()}
    assert names <= {"locks.db", "locks.db-lone", "locks.db-opening", "locks.db.d"}


@pytest.mark.usual(6)
@pytest.mark.parametrize("wal", [False, True])
@pytest.mark.parametrize("end", ["", "-queues", "-values"])
def test_a_database_of_another_application_is_left_unchanged(
    wal: bool, end: str, path: Path, client: Client
) -> None:
    # Given the database of another application
    file = Path(f"{path}{end}")
    uses: dict[str, Callable[[], object]] = {
        "": client.lock("x").acquire,
        "-queues": partial(client.queue("q").put, "x"),
        "-values": partial(client.guard("g", ttl=60).get, str),
    }
    with contextlib.closing(sqlite3.connect(file)) as theirs:
        theirs.execute("PRAGMA journal_mode = " + ("WAL" if wal else "DELETE"))
        with theirs:
            theirs.execute("CREATE TABLE accounts (n)")
            theirs.execute("INSERT INTO accounts VALUES (42)")
        before = file.read_bytes()
        # When it is opened as a database of holdfast
        with pytest.raises(ConfigError, match="another application"):
            uses[end]()
        # Then it is unchanged, and the other application can still use it
        assert file.read_bytes() == before
        assert theirs.execute("SELECT n FROM accounts").fetchall() == [(42,)]


@pytest.fixture
def made(path: Path) -> Path:
    """A database that holdfast has made."""
    with Desk(path) as first:
        assert first.free()
    return path


def test_a_newer_format_is_refused(made: Path, desk: Callable[..., Desk]) -> None:
    with contextlib.closing(sqlite3.connect(made)) as theirs:
        theirs.execute("PRAGMA user_version = 2")
    refused(desk, "layout 2")


def test_a_damaged_database_is_named_and_not_written(made: Path, desk: Callable[..., Desk]) -> None:
    # Given a database whose pages were overwritten, except its header
    damaged = made.read_bytes()[:100] + b"\x55" * (made.stat().st_size - 100)
    made.write_bytes(damaged)
    # When it is opened, then the error names it and the remedy
    told = refused(desk, "damaged")
    assert str(made) in told
    assert "move it away" in told
    assert made.read_bytes() == damaged


def test_a_foreign_file_in_place_of_the_file_mutex_is_refused(
    path: Path, desk: Callable[..., Desk]
) -> None:
    gate = Path(f"{path}.d/gate")
    gate.parent.mkdir(0o700)
    gate.write_bytes(b"notes to myself" * 400)
    refused(desk, "not the file mutex")
    assert gate.read_bytes() == b"notes to myself" * 400


def test_a_long_path_works_like_any_other(tmp_path: Path) -> None:
    # Given a path that is too long for a socket address
    folder = tmp_path
    while len(str(folder)) < 200:
        folder = folder / "a-rather-long-name-of-a-folder"
    folder.mkdir(0o700, parents=True)
    with Desk(folder / "locks.db") as here, Desk(folder / "locks.db") as there:
        fence = here.hold(held := claim())
        waiting = there.join(wanted := claim())
        # When the holder releases the lock
        assert here.leave(held, fence)
        # Then the waiter is woken immediately
        assert there.wait(wanted, waiting, 5.0) is not None  # type: ignore[arg-type]
        assert there.leave(wanted)


@pytest.mark.parametrize(
    "kind, taken", [("ext4", True), ("tmpfs", True), ("nfs4", False), ("fuse.sshfs", False)]
)
def test_only_local_file_systems_are_taken(
    kind: str, taken: bool, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a folder on a file system of this type, according to the kernel's list of mounts
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 0:20 / / rw shared:1 - ext4 /dev/sda rw\n"
        f"22 21 0:21 / {str(tmp_path).replace(' ', chr(92) + '040')} rw - {kind} server:/x rw\n"
    )
    monkeypatch.setattr(place, "MOUNTS", str(mounts))
    monkeypatch.setattr(place.file_system, "__defaults__", (str(mounts),))
    where = tmp_path / "in" / "locks.db"
    where.parent.mkdir(mode=0o700)
    # When a client locks there, then it works on a local file system, or with an option
    if not taken:
        with pytest.raises(ConfigError, match=rf"{kind}.*network_fs=yes"):
            Desk(where).join(claim())
    assert isinstance(Desk(where, "" if taken else "?network_fs=yes").join(claim()), Held)


@pytest.mark.parametrize("gone", ["sessions", ""])
@pytest.mark.parametrize("deep", [1, 12])
def test_a_folder_that_is_removed_while_we_open_is_an_error_that_passes(
    deep: int, gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that deletes the store's folders between their creation and their use
    folder = tmp_path.joinpath(*["0123456789"] * deep)
    folder.mkdir(parents=True)
    path = folder / "locks.db"
    make = place.make_folders

    def make_and_lose(there: Place) -> None:
        make(there)
        shutil.rmtree(Path(there.folder) / gone)

    monkeypatch.setattr(place, "make_folders", make_and_lose)
    with Desk(path) as desk:
        # Then they are made again, or the error asks for another try
        if gone:
            assert isinstance(desk.join(claim("first")), Held)
        else:
            with pytest.raises(StoreUnavailable, match="try again"):
                desk.join(claim())
        # And a request succeeds as soon as the deletions end
        monkeypatch.setattr(place, "make_folders", make)
        assert isinstance(desk.join(claim()), Held)


def test_the_kernels_list_of_mounts_is_parsed_with_its_escapes(tmp_path: Path) -> None:
    # Given mounts inside one another, mounts over one another, and a mount with a blank in its name
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 a rw\n"
        "2 1 0:2 / /srv rw,x shared:3 master:1 - nfs4 b rw\n"
        "3 1 0:3 / /srv/my\\040disk rw - xfs c rw\n"
        "4 1 0:4 / /srv/my\\040disk rw - btrfs d rw\n"
        "nonsense\n"
    )
    # Then the innermost and last mount counts
    folders = ("/", "/srvice", "/srv/x", "/srv/my disk/x")
    kinds = [place.file_system(folder, str(mounts)) for folder in folders]
    assert kinds == ["ext4", "ext4", "nfs4", "btrfs"]
    assert place.file_system("/", str(tmp_path / "no such list")) is None


def test_an_unknown_option_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match='did you mean "wake"'):
        find("sqlite:///x/y.db?wakes=poll")


def test_a_folder_being_closed_is_not_returned_to_another_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an open folder object
    os.mkdir(f"{path}.d", 0o700)
    where = Place(f"{path}", f"{path}.d", f"{path}.d/gate", f"{path}.d/sessions", False)
    first = folder(where)
    found: list[Folder] = []
    real, closed = os.close, [first.fd]

    # When one thread closes it, and another thread asks for the same folder at that moment
    def close(fd: int) -> None:
        real(fd)
        if closed == [fd]:
            closed.clear()
            with ThreadPoolExecutor(1) as other:
                found.append(other.submit(folder, where).result())

    monkeypatch.setattr(folders.os, "close", close)
    del first
    # Then the other thread gets a different folder object, which is open
    monkeypatch.undo()
    assert found, "no folder could be opened"
    assert os.fstat(found[0].fd).st_ino == os.stat(found[0].path).st_ino
    assert found[0].names() == os.listdir(found[0].path)
