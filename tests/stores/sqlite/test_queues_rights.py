"""Access rights to the queues of a folder, and a full disk; root sets up both."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.queue.model import Job, Put
from tests.fenced.process import Child
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.desk import run
from tests.stores.sqlite.test_rights import NOBODY, fill, path, root_only

__all__ = ["path"]


@root_only
def test_a_group_shares_the_queues_of_a_folder(path: Path) -> None:
    # Given a folder that root owns and a group can write to, and a queue that root has used in it
    os.chown(path.parent, 0, 7777)
    path.parent.chmod(0o2770)
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q")
        queue.put("from root", group="g")

        def member(child: Child) -> None:
            os.setgroups([7777])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            theirs = Client(f"sqlite://{path}").queue("q")
            for _ in range(2):
                job = theirs.take(timeout=20)
                assert job is not None
                child.say(job.payload)
                assert job.ack()
            theirs.put("from a member")

        with Child(member) as child:
            # When a member of the group, under another user id, takes this job and waits for more
            assert child.hear() == "from root"
            while not os.listdir(f"{path}-queues.d/idle"):
                pass
            queue.put("more", group="g")
            # Then each gets the other's jobs
            assert child.hear() == "more"
            assert child.end() == 0
        job = queue.take(timeout=5)
        assert job is not None
        assert job.payload == "from a member"
        assert job.ack()
        for end, mode in (("", 0o660), ("-wal", 0o660), (".d/gate", 0o660), (".d/idle", 0o2770)):
            info = Path(f"{path}-queues{end}").stat()
            assert stat.S_IMODE(info.st_mode) == mode, end
            assert info.st_gid == 7777


@root_only
def test_a_full_disk_takes_nothing_in_and_what_is_there_can_be_settled(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir(0o700)
    if os.system(f"mount -t tmpfs -o size=8m,mode=700 none {disk} 2>/dev/null"):
        pytest.skip("no file system can be mounted here")
    try:
        with Client(f"sqlite://{disk}/locks.db") as client:
            queue = client.queue("q")
            queue.put_many(range(20))
            jobs = queue.take_many(10, timeout=0)
            # When the disk is full to the last byte
            fill(disk / "filler")
            accepted = 20 + _fill_up(client)
            # Then delivered jobs can be settled, and more jobs can be taken
            assert all(job.ack() for job in jobs)
            with contextlib.suppress(StoreUnavailable):
                assert all(job.ack() for job in queue.take_many(5, timeout=0))
            (disk / "filler").unlink()
            assert queue.stats().accepted == accepted
            audit(disk / "locks.db")
    finally:
        os.system(f"umount -l {disk}")


def _fill_up(client: Client) -> int:
    """Put until there is no room for a job, big or small; return the number of accepted jobs."""
    queues, accepted = client._ctx.store.queues, 0  # type: ignore[attr-defined]
    last: Exception | None = None
    for number, size in enumerate([10_000] * 100 + [1] * 100):
        jobs = tuple(Job(f"{number}-{one}", "", bytes(size)) for one in range(10))
        try:
            run(queues.put(Put("q", f"lane {number}", 1, jobs, 0.0), 5.0))
        except StoreUnavailable as wrong:
            last = wrong
        else:
            accepted += 10
    assert "is full" in str(last)
    return accepted
