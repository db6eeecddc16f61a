"""Places of the store: a refused place is left unchanged, and the error names a remedy."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.model import Held
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.stores.sqlite.blocking import place
from holdfast.stores.sqlite.blocking.paths import Place
from holdfast.url import find
from tests.stores.sqlite.desk import Desk, claim


def test_files_are_private_whatever_the_umask(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a process whose umask allows all users to read its files
    before = os.umask(0)
    try:
        # When one client holds a lock, and another one waits for it
        here, there = desk(), desk()
        fence = here.hold(held := claim())
        there.join(wanted := claim())
    finally:
        os.umask(before)
    # Then every file is still private
    folder = path.with_name("locks.db.d")
    files = [*path.parent.glob("locks.db*"), *folder.glob("*"), *(folder / "sessions").glob("*")]
    assert len(files) >= 9
    for file in files:
        assert stat.S_IMODE(file.lstat().st_mode) & 0o077 == 0, file
    assert here.leave(held, fence)
    assert there.leave(wanted)


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


def test_a_folder_that_any_user_can_write_to_is_refused(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a folder like /tmp, with and without the sticky bit
    for mode in (0o1777, 0o777):
        path.parent.chmod(mode)
        # When a client locks there, then the error names a remedy, and nothing is made
        with pytest.raises(ConfigError, match="mkdir -m 700") as told:
            desk().join(claim())
        # And the remedy changes no existing folder
        assert "chmod" not in str(told.value)
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
    with pytest.raises(ConfigError) as told:
        desk().join(claim())
    if found := re.search(r"(?:install|mkdir) .*? (?=for a user alone)", str(told.value)):
        subprocess.run(["sh", "-c", found[0]], check=True)
    # Then the file that the error names can be used, and an existing folder is unchanged
    named = re.search(r"\(sqlite://(\S+)\)", str(told.value))
    assert named, told.value
    assert Desk(named[1]).free()
    if there != "nothing":
        assert stat.S_IMODE(own.stat().st_mode) == before
    assert not list(target.iterdir())


def test_a_link_in_the_place_of_the_database_is_refused(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a link to another file
    target = path.with_name("elsewhere.db")
    path.symlink_to(target)
    # When a client locks there, then the error names the link's target, and the target isn't made
    with pytest.raises(ConfigError, match=r"symbolic link.*elsewhere\.db"):
        desk().join(claim())
    assert not target.exists()


def test_a_folder_in_the_place_of_the_database_is_refused(
    path: Path, desk: Callable[..., Desk]
) -> None:
    path.mkdir()
    with pytest.raises(ConfigError, match="not a plain file"):
        desk().join(claim())


def test_links_in_the_place_of_our_own_files_are_not_followed(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given links in the places of the store's files
    target = path.with_name("victim")
    target.write_bytes(b"precious")
    folder = path.with_name("locks.db.d")
    folder.mkdir(0o700)
    for link in (folder / "gate", path.with_name("locks.db-lone")):
        link.symlink_to(target)
        # When the store is opened, then it refuses, and the links' target is unchanged
        with pytest.raises(ConfigError, match=link.name):
            desk().join(claim())
        assert target.read_bytes() == b"precious"
        link.unlink()
    (folder / "sessions").rmdir()
    (folder / "sessions").symlink_to(path.parent)
    with pytest.raises(ConfigError, match="in the way"):
        desk().join(claim())


@pytest.mark.parametrize(
    "content, says",
    [
        (b"no database at all, but long enough to have been mistaken for one" * 9, "not a SQLite"),
        (b"short", "not a SQLite"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "another application"),
    ],
)
def test_a_foreign_file_is_left_unchanged(
    content: bytes, says: str, path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a file of another program
    path.write_bytes(content)
    # When it is opened as a lock database
    with pytest.raises(ConfigError, match=says) as told:
        desk().join(claim())
    # Then the error names it, and the file is unchanged
    assert str(path) in str(told.value)
    assert path.read_bytes() == content
    assert sorted(p.name for p in path.parent.glob("locks.db-*")) in ([], ["locks.db-lone"])


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_of_another_application_is_left_unchanged(
    wal: bool, path: Path, desk: Callable[..., Desk]
) -> None:
    # Given the database of another application
    theirs = sqlite3.connect(path)
    theirs.execute("PRAGMA journal_mode = " + ("WAL" if wal else "DELETE"))
    theirs.execute("CREATE TABLE accounts (n)")
    theirs.execute("INSERT INTO accounts VALUES (42)")
    theirs.commit()
    before = path.read_bytes()
    # When it is opened as a lock database
    with pytest.raises(ConfigError, match="another application"):
        desk().join(claim())
    # Then it is unchanged, and the other application can still use it
    assert path.read_bytes() == before
    assert theirs.execute("SELECT n FROM accounts").fetchall() == [(42,)]
    theirs.close()


def test_a_newer_format_is_refused(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a database that a later version has made
    first = desk()
    assert first.free()
    first.close()
    theirs = sqlite3.connect(path)
    theirs.execute("PRAGMA user_version = 2")
    theirs.close()
    # When this version opens it, then the error names the format
    with pytest.raises(ConfigError, match="schema 2"):
        desk().join(claim())


def test_a_damaged_database_is_named_and_not_written(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a database whose pages were overwritten, except its header
    first = desk()
    assert first.free()
    first.close()
    damaged = path.read_bytes()[:100] + b"\x55" * (path.stat().st_size - 100)
    path.write_bytes(damaged)
    # When it is opened
    with pytest.raises(ConfigError, match="damaged") as told:
        desk().join(claim())
    # Then the error names it and the remedy
    assert str(path) in str(told.value)
    assert "move it away" in str(told.value)
    assert path.read_bytes() == damaged


def test_a_foreign_file_in_place_of_the_file_mutex_is_refused(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given another file in the place of the file mutex
    folder = path.with_name("locks.db.d")
    folder.mkdir(0o700)
    (folder / "gate").write_bytes(b"notes to myself" * 400)
    # When the store is opened, then the error names the file, and the file is unchanged
    with pytest.raises(ConfigError, match="not the file mutex"):
        desk().join(claim())
    assert (folder / "gate").read_bytes() == b"notes to myself" * 400


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
    # When a client locks there
    if taken:
        # Then it works on a local file system
        assert isinstance(Desk(where).join(claim()), Held)
        return
    # And on others the error names the option that allows them
    with pytest.raises(ConfigError, match=rf"{kind}.*network_fs=yes"):
        Desk(where).join(claim())
    assert isinstance(Desk(where, "?network_fs=yes").join(claim()), Held)


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
    for folder, kind in {
        "/": "ext4",
        "/srvice": "ext4",
        "/srv/x": "nfs4",
        "/srv/my disk/x": "btrfs",
    }.items():
        assert place.file_system(folder, str(mounts)) == kind
    assert place.file_system("/", str(tmp_path / "no such list")) is None


def test_an_unknown_option_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match='did you mean "wake"'):
        find("sqlite:///x/y.db?wakes=poll")
