"""Paths of fenced files: allowed paths, links, odd names, and the access rights of the files."""

from __future__ import annotations

import gc
import os
import stat
import tempfile
from pathlib import Path

import pytest

from holdfast.errors import ConfigError, FenceRejected
from holdfast.fenced import FencedFile
from holdfast.fenced.blocking import files
from tests.fenced.process import Child


@pytest.fixture
def ledger(tmp_path: Path) -> FencedFile:
    return FencedFile(tmp_path / "ledger", durable=False)


def test_a_replacement_keeps_mode_and_group_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes(b"one")
    path.chmod(0o604)
    before = path.stat()
    FencedFile(path).replace(1, "two")
    after = path.stat()
    for kept in ("st_mode", "st_uid", "st_gid"):
        assert getattr(after, kept) == getattr(before, kept)
    assert after.st_ino != before.st_ino
    assert sorted(os.listdir(tmp_path)) == ["page", "page.fence"]


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        FencedFile(tmp_path / "a").append(1, "x")
        FencedFile(tmp_path / "b").replace(1, "x")
    finally:
        os.umask(before)
    for name in ("a", "a.fence", "b", "b.fence"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640, name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_root_leaves_a_sidecar_that_the_owner_of_the_file_may_write(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(b"")
    os.chown(path, 12345, 54321)
    fenced = FencedFile(path)
    fenced.append(1, "x")
    fenced.replace(1, "y")
    for name in ("theirs", "theirs.fence"):
        about = (tmp_path / name).stat()
        assert (about.st_uid, about.st_gid) == (12345, 54321), name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")
def test_a_group_that_can_t_be_kept_is_replaced_by_none() -> None:
    # Given a file of a group that its next writer isn't in
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        page = FencedFile(f"{folder}/page")
        page.path.write_bytes(b"one")
        os.chown(page.path, 12345, 54321)
        page.path.chmod(0o666)

        def stranger(_: Child) -> None:
            os.setgroups([])
            os.setegid(65534)
            os.seteuid(65534)
            page.replace(1, "two")

        with Child(stranger) as writer:
            assert writer.end() == 0
        # Then the group of the new file has no rights that it did not have before
        for path in (page.path, Path(f"{page.path}.fence")):
            about = path.stat()
            assert (about.st_uid, about.st_gid) == (65534, 65534)
            assert stat.S_IMODE(about.st_mode) == 0o606


def test_all_ways_to_a_file_lead_to_one_fenced_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a file behind a link, a linked folder and a relative path
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "folder").symlink_to(real)
    (tmp_path / "link").symlink_to(real / "ledger")
    monkeypatch.chdir(tmp_path)
    ways = [FencedFile(w) for w in ("link", "folder/ledger", b"real/../real/ledger")]
    monkeypatch.chdir("/")
    # When it is written through each of them
    for fence, fenced in enumerate(ways, 1):
        fenced.replace(fence, f"{fence}")
    # Then there is one file with one fence, and the link is still a link
    assert {fenced.read() for fenced in ways} == {b"3"}
    with pytest.raises(FenceRejected):
        ways[0].append(2, "late")
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(real)) == ["ledger", "ledger.fence"]


def test_a_link_put_in_the_place_of_a_fenced_file_is_not_followed(
    ledger: FencedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    for name in ("ledger", "ledger.fence"):
        other.write_bytes(b"other")
        (tmp_path / name).symlink_to(other)
        for write in (ledger.append, ledger.replace):
            with pytest.raises(ConfigError, match="regular file"):
                write(1, "x")
        with pytest.raises(ConfigError, match="regular file"):
            ledger.read()
        assert other.read_bytes() == b"other"
        (tmp_path / name).unlink()
    # A link that appears between the check and the opening is not followed either
    (tmp_path / "ledger").symlink_to(other)
    with monkeypatch.context() as patch:
        patch.setattr(files, "about", lambda _: None)
        with pytest.raises(OSError, match="symbolic links"):
            ledger.append(1, "x")
    (tmp_path / "ledger").unlink()
    # And a link in the place of a new replacement is removed, not followed
    (tmp_path / "ledger.fence.new").symlink_to(other)
    ledger.replace(1, "x")
    assert (ledger.read(), other.read_bytes()) == (b"x", b"other")


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_what_is_no_regular_file_is_refused_without_a_sidecar(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = Path("/dev/null")
    fenced = FencedFile(path)
    gc.collect()  # what others left open isn't closed meanwhile
    before = os.listdir("/proc/self/fd")
    for call in (lambda: fenced.append(1, "x"), lambda: fenced.replace(1, "x"), fenced.read):
        with pytest.raises(ConfigError, match="regular file"):
            call()
    assert os.listdir("/proc/self/fd") == before
    assert not Path(f"{path}.fence").exists()


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe\x80",
        b"new\nline \x1b[31m",
        b" ",
        b"-rf",
        b"...",
        pytest.param(b"n" * 245, id="long"),
    ],
    ids=ascii,
)
def test_names_of_odd_bytes_are_only_names(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    fenced = FencedFile(path)
    fenced.append(2, "a")
    fenced.replace(2, "b")
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [name, name + b".fence"]
    with pytest.raises(FenceRejected) as told:
        fenced.append(1, "x")
    assert str(told.value).isprintable()
    assert repr(fenced).isprintable()


@pytest.mark.parametrize(
    "wrong", ["", "a\0b", "/", "x.fence", "x.fence.new", "n" * 246, 7, None], ids=repr
)
def test_what_can_t_be_the_path_of_a_fenced_file_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError):
        FencedFile(wrong)  # type: ignore[arg-type]


def test_a_loop_of_links_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError):
        FencedFile(tmp_path / "a").append(1, "x")


def test_a_reader_needs_no_right_to_write() -> None:
    # Given a file that this process may only read (root could write it, so it changes its user)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        ledger = FencedFile(f"{folder}/ledger")
        ledger.append(5, "a")
        for name in os.listdir(folder):
            Path(folder, name).chmod(0o444)
        Path(folder).chmod(0o555)

        def look(child: Child) -> None:
            if os.geteuid() == 0:
                os.seteuid(65534)
            child.say(f"{ledger.read()!r} {ledger.fence()}")
            try:
                ledger.append(5, "b")
            except PermissionError as wrong:
                child.say(wrong)

        # When it reads and tries to write
        with Child(look) as reader:
            # Then it reads, and the refusal names a file
            assert reader.hear() == "b'a' 5"
            assert f"{folder}/ledger.fence" in reader.hear()
            assert reader.end() == 0
        Path(folder).chmod(0o755)
