"""A folder object that one thread closes is never returned to another thread."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.stores.sqlite.blocking import folder as module
from holdfast.stores.sqlite.blocking.folder import Folder, folder
from holdfast.stores.sqlite.blocking.paths import Place


def test_a_folder_being_closed_is_not_returned_to_another_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an open folder object
    os.mkdir(f"{path}.d", 0o700)
    place = Place(f"{path}", f"{path}.d", f"{path}.d/gate", f"{path}.d/sessions", False)
    first = folder(place)
    found: list[Folder] = []
    real, closed = os.close, [first.fd]

    # When one thread closes it, and another thread asks for the same folder at that moment
    def close(fd: int) -> None:
        real(fd)
        if closed == [fd]:
            closed.clear()
            with ThreadPoolExecutor(1) as other:
                found.append(other.submit(folder, place).result())

    monkeypatch.setattr(module.os, "close", close)
    del first
    # Then the other thread gets a different folder object, which is open
    monkeypatch.undo()
    assert found, "no folder could be opened"
    assert os.fstat(found[0].fd).st_ino == os.stat(found[0].path).st_ino
    assert found[0].names() == os.listdir(found[0].path)
