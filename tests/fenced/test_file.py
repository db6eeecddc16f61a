"""What a fenced file accepts, refuses and keeps, seen by one process."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from holdfast.errors import ConfigError, FenceRejected, LockLost, NotAcquired, NotHeld
from holdfast.fenced import FencedFile
from holdfast.fenced.blocking import lock
from holdfast.fenced.blocking.files import place
from tests.fenced.process import Child


@pytest.fixture
def ledger(tmp_path: Path) -> FencedFile:
    return FencedFile(tmp_path / "ledger", durable=False)


class Hold:
    """A hold as the guard sees it; it fails its n-th check if told so."""

    def __init__(self, fence: int, *, fails: Exception | None = None, at: int = 1) -> None:
        self.fence, self.fails, self.at, self.checks = fence, fails, at, 0

    def check(self) -> None:
        self.checks += 1
        if self.fails and self.checks >= self.at:
            raise self.fails


def test_a_smaller_fence_is_refused_and_leaves_no_trace(ledger: FencedFile) -> None:
    # Given a file that has accepted fence 7
    ledger.append(7, "paid 42\n")
    # When an older holder appends or replaces
    for write in (ledger.append, ledger.replace):
        with pytest.raises(FenceRejected) as told:
            write(6, "paid 42\n")
        # Then it is told the file, both fences and what it means
        for part in (str(ledger.path), "fence 6", "fence 7", "lost", "acquire it again"):
            assert part in str(told.value)
    # And the file is as it was
    assert ledger.read() == b"paid 42\n"
    assert ledger.fence() == 7


def test_equal_and_greater_fences_are_accepted(ledger: FencedFile) -> None:
    ledger.append(7, "a")
    ledger.append(7, b"b")
    ledger.append(9, memoryview(b"c"))
    assert (ledger.read(), ledger.fence()) == (b"abc", 9)
    ledger.replace(9, "d")
    ledger.replace(11, bytearray(b"e"))
    assert (ledger.read(), ledger.fence()) == (b"e", 11)
    ledger.append(11, "f")
    assert ledger.read() == b"ef"


def test_an_empty_write_moves_the_fence(ledger: FencedFile) -> None:
    ledger.append(3, "")
    assert (ledger.read(), ledger.fence()) == (b"", 3)
    ledger.append(3, "x")
    ledger.replace(5, "")
    assert (ledger.read(), ledger.fence()) == (b"", 5)


def test_a_hold_is_checked_first_and_again_when_the_file_is_ours(ledger: FencedFile) -> None:
    # Given a hold that is held, it writes with its fence
    good = Hold(5)
    ledger.append(good, "a")
    assert (ledger.fence(), good.checks) == (5, 2)
    # When it is lost, given back, or lost while we waited for the file
    for lost in (
        Hold(6, fails=LockLost("lost")),
        Hold(6, fails=NotHeld("given back")),
        Hold(6, fails=LockLost("lost meanwhile"), at=2),
    ):
        with pytest.raises((LockLost, NotHeld)) as told:
            ledger.append(lost, "b")
        # Then its own error comes, and nothing has moved
        assert told.value is lost.fails
    assert (ledger.read(), ledger.fence()) == (b"a", 5)


@pytest.mark.parametrize("wrong", [0, -1, 2**63, True, "7", 1.0, None, b"8", object()])
def test_what_is_no_fence_is_refused_before_anything_is_made(
    ledger: FencedFile, wrong: object
) -> None:
    with pytest.raises(ConfigError):
        ledger.append(wrong, "a")  # type: ignore[arg-type]
    assert os.listdir(ledger.path.parent) == []


def test_a_fence_as_text_is_told_where_it_comes_from(ledger: FencedFile) -> None:
    with pytest.raises(ConfigError, match="HOLDFAST_FENCE"):
        ledger.append("7", "a")  # type: ignore[arg-type]


def test_what_is_no_data_is_refused(ledger: FencedFile) -> None:
    for wrong in (None, 7, ["a"]):
        with pytest.raises(ConfigError, match="bytes or text"):
            ledger.append(1, wrong)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        ledger.append(1, "\ud800")
    assert os.listdir(ledger.path.parent) == []


def test_a_file_that_exists_is_guarded_from_now_on(tmp_path: Path) -> None:
    # Given a private file with contents
    path = tmp_path / "old"
    path.write_bytes(b"old ")
    path.chmod(0o640)
    ledger = FencedFile(path)
    assert (ledger.read(), ledger.fence()) == (b"old ", 0)
    # When it is written through a guard
    ledger.append(4, "new")
    # Then it goes on from there, and the sidecar may be written by the same people
    assert ledger.read() == b"old new"
    assert stat.S_IMODE((tmp_path / "old.fence").stat().st_mode) == 0o640


def test_reading_what_isn_t_there_says_so(ledger: FencedFile) -> None:
    with pytest.raises(FileNotFoundError):
        ledger.read()
    assert ledger.fence() == 0
    ledger.append(1, "a")
    ledger.path.unlink()
    with pytest.raises(FileNotFoundError):
        ledger.read()
    assert ledger.fence() == 1


def test_a_replacement_keeps_mode_and_group_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes(b"one")
    path.chmod(0o604)
    before = path.stat()
    page = FencedFile(path)
    page.replace(1, "two")
    after = path.stat()
    assert after.st_mode == before.st_mode
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
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
    guard = FencedFile(path)
    guard.append(1, "x")
    guard.replace(1, "y")
    for name in ("theirs", "theirs.fence"):
        about = (tmp_path / name).stat()
        assert (about.st_uid, about.st_gid) == (12345, 54321), name


def test_all_ways_to_a_file_meet_in_one_guard(
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
    for fence, guard in enumerate(ways, 1):
        guard.replace(fence, f"{fence}")
    # Then there is one file with one fence, and the link is still a link
    assert {guard.read() for guard in ways} == {b"3"}
    with pytest.raises(FenceRejected):
        ways[0].append(2, "late")
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(real)) == ["ledger", "ledger.fence"]


def test_a_link_put_in_the_place_of_a_guarded_file_is_not_followed(
    ledger: FencedFile, tmp_path: Path
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
    # And a link where a replacement is made is removed, not followed
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
    guard = FencedFile(path)
    for write in (guard.append, guard.replace):
        with pytest.raises(ConfigError, match="regular file"):
            write(1, "x")
    assert not Path(f"{path}.fence").exists()


@pytest.mark.parametrize(
    "name", [b"\xff\xfe\x80", b"new\nline \x1b[31m", b" ", b"-rf", b"..."], ids=ascii
)
def test_names_of_odd_bytes_are_only_names(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    guard = FencedFile(path)
    guard.append(2, "a")
    guard.replace(2, "b")
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [name, name + b".fence"]
    with pytest.raises(FenceRejected) as told:
        guard.append(1, "x")
    assert str(told.value).isprintable()
    assert repr(guard).isprintable()


@pytest.mark.parametrize(
    "wrong", ["", "a\0b", "/", "x.fence", "x.fence.new", "n" * 246, 7, None], ids=repr
)
def test_what_can_t_be_a_guarded_path_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError):
        FencedFile(wrong)  # type: ignore[arg-type]


def test_the_longest_name_works(tmp_path: Path) -> None:
    guard = FencedFile(tmp_path / ("n" * 245))
    guard.append(1, "a")
    guard.replace(1, "b")
    assert guard.read() == b"b"


def test_a_loop_of_links_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError):
        FencedFile(tmp_path / "a").append(1, "x")


def test_a_damaged_or_foreign_sidecar_is_refused_and_left_alone(
    ledger: FencedFile, tmp_path: Path
) -> None:
    ledger.append(5, "a")
    ledger.append(5, "b")
    sidecar = tmp_path / "ledger.fence"
    whole = sidecar.read_bytes()
    for damage in (
        b"hello",
        whole[:4096],
        whole[:-1],
        whole + b"x",
        whole.replace(b"fence=", b"FENCE="),
    ):
        sidecar.write_bytes(damage)
        for call in (ledger.read, ledger.fence, lambda: ledger.append(9, "c")):
            with pytest.raises(ConfigError, match=r"ledger\.fence"):
                call()
        assert sidecar.read_bytes() == damage
    assert ledger.path.read_bytes() == b"ab"


@pytest.mark.parametrize("page", [0, 1])
def test_one_torn_note_costs_nothing_that_was_written(
    ledger: FencedFile, tmp_path: Path, page: int
) -> None:
    # Given notes 1, 2 and 3, of which the third stands in page 1
    for fence in (5, 6, 7):
        ledger.append(fence, f"{fence}")
    # When a page is torn
    with (tmp_path / "ledger.fence").open("r+b") as sidecar:
        sidecar.seek(4096 * page + 20)
        sidecar.write(b"torn")
    # Then the other one counts: the fence as it stood there, the data untouched
    assert ledger.fence() == (7 if page == 0 else 6)
    ledger.append(8, "8")
    assert ledger.read() == b"5678"


def test_what_others_did_to_a_settled_file_is_never_cut(ledger: FencedFile) -> None:
    # Given a file whose last append is settled
    ledger.append(5, "first\n")
    ledger.append(5, "second\n")
    # When somebody shortens, lengthens or changes it by hand
    for contents in (b"first\nsecon", b"first\nSECOND\n", b"first\nsecond\nby hand", b"", b"f"):
        ledger.path.write_bytes(contents)
        # Then that is what is read, and what the next append goes on from
        assert ledger.read() == contents
        ledger.append(5, "next\n")
        assert ledger.read() == contents + b"next\n"


def test_a_reader_needs_no_right_to_write() -> None:
    # Given a file that we may only read (root may everything, so it becomes somebody else)
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


def test_a_call_waits_no_longer_than_its_timeout(tmp_path: Path) -> None:
    guard = FencedFile(tmp_path / "x", durable=False, timeout=0.05)
    guard.append(1, "a")
    with lock.locked(place(str(guard.path)), True, 1.0):
        for call in (guard.read, guard.fence, lambda: guard.append(2, "b")):
            with pytest.raises(NotAcquired, match=f"process {os.getpid()} is in the middle"):
                call()
        once = FencedFile(tmp_path / "x", timeout=0)
        with pytest.raises(NotAcquired):
            once.append(2, "b")
    guard.append(2, "b")
    assert guard.read() == b"ab"
    for wrong in (-2, float("nan"), "1"):
        with pytest.raises(ConfigError):
            FencedFile(tmp_path / "x", timeout=wrong)  # type: ignore[arg-type]


def test_a_sidecar_that_is_replaced_while_one_waits_is_noticed(tmp_path: Path) -> None:
    # Given a writer that waits for the sidecar
    guard = FencedFile(tmp_path / "x", durable=False)
    guard.append(5, "a")
    where = place(str(guard.path))
    begun = threading.Event()

    def late() -> None:
        begun.set()
        guard.append(3, "late")

    writer = threading.Thread(target=late)
    with lock.locked(where, True, 1.0):
        writer.start()
        assert begun.wait(10)
        # When everything is deleted under it, and made anew by a third
        where.note.unlink()
        FencedFile(where.data).append(2, "b")
    writer.join(10)
    # Then what it writes is noted in the sidecar that is there, not in the deleted one
    assert guard.fence() == 3
    assert guard.read() == b"ablate"


def test_threads_and_tasks_lose_nothing(ledger: FencedFile) -> None:
    def write(who: int) -> None:
        for turn in range(50):
            ledger.append(1, f"{who}.{turn}\n")

    async def both() -> None:
        await asyncio.gather(*(asyncio.to_thread(write, who) for who in range(4)))

    asyncio.run(both())
    lines = ledger.read().decode().split()
    assert len(lines) == 200
    for who in range(4):
        assert [x for x in lines if x.startswith(f"{who}.")] == [f"{who}.{n}" for n in range(50)]


def test_nothing_stays_open_between_calls(ledger: FencedFile) -> None:
    before = os.listdir("/proc/self/fd")
    ledger.append(1, "a")
    ledger.replace(2, "b")
    ledger.read()
    with pytest.raises(FenceRejected):
        ledger.append(1, "d")
    assert os.listdir("/proc/self/fd") == before
