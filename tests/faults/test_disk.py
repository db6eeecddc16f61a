"""Full disks, files with a limit of their size, and files that vanish."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from holdfast.testing.faults import NoSmallDisk, SmallDisk, delete, dice, no_file_longer


def test_no_file_grows_beyond_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with no_file_longer(1000):
        file.write_bytes(bytes(1000))
        with pytest.raises(OSError) as told, open(file, "ab", buffering=0) as out:
            out.write(b"x")
        assert told.value.errno == errno.EFBIG
    assert file.write_bytes(bytes(2000)) == 2000


def test_a_small_disk_is_full_and_has_room_again() -> None:
    try:
        with SmallDisk(1 << 20) as disk:
            disk.fill()
            with pytest.raises(OSError) as told:
                (disk.folder / "x").write_bytes(b"x")
            assert told.value.errno == errno.ENOSPC
            disk.clear()
            (disk.folder / "x").write_bytes(b"x")
            folder = disk.folder
    except NoSmallDisk as reason:
        pytest.skip(f"needs the right to mount: {reason}")
    assert not folder.exists()


def test_files_and_folders_vanish_while_others_work_in_them(tmp_path: Path) -> None:
    # Given a folder in which a thread makes files without pause
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "file").touch()
    over = threading.Event()

    def make() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                (folder / str(number)).touch()
            except FileNotFoundError:
                return

    maker = threading.Thread(target=make)
    maker.start()
    # When all is deleted
    gone = delete(tmp_path / "file", folder, tmp_path / "nothing")
    over.set()
    maker.join()
    # Then it is gone, and the paths that existed are returned
    assert gone == [str(tmp_path / "file"), str(folder)]
    assert os.listdir(tmp_path) == []


def test_dice_say_their_seed_and_can_be_had_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dice("a test")
    said = capsys.readouterr().out
    seed = said.partition("HOLDFAST_SEED=")[2].rstrip(")\n")
    assert said == f"a test: seed {seed} (again: HOLDFAST_SEED={seed})\n"
    monkeypatch.setenv("HOLDFAST_SEED", seed)
    numbers = [first.random() for _ in range(3)]
    again = dice("a test")
    assert [again.random() for _ in range(3)] == numbers
    assert dice("another").random() not in numbers
