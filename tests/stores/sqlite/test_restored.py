"""Files of the store restored from a copy: fences must not fall."""

from __future__ import annotations

import shutil
from pathlib import Path

from holdfast import Client


def test_fences_rise_though_an_old_copy_of_all_files_was_put_back(tmp_path: Path) -> None:
    # Given a copy of a store, and fences granted after the copy
    folder, copy = tmp_path / "locks", tmp_path / "copy"
    folder.mkdir(mode=0o700)
    url = f"sqlite://{folder}/locks.db"
    with Client(url, ttl=1) as client:
        client.lock("x").acquire().release()
    shutil.copytree(folder, copy)
    with Client(url, ttl=1) as client:
        given = [client.lock("x").acquire(timeout=5) for _ in range(1)]
        for _ in range(200):
            assert given[-1] is not None
            given[-1].release()
            given.append(client.lock("x").acquire(timeout=5))
        last = given[-1]
        assert last is not None
        last.release()
    # When the copy is put back
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    # Then the next fence is greater than all earlier ones
    with Client(url, ttl=1) as client, client.lock("x", timeout=30) as hold:
        assert hold.fence > last.fence
