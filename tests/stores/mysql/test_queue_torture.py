"""Workers are killed, and the server is killed: no job is lost, no order broken."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from holdfast import Client, StoreUnavailable
from holdfast.testing.faults import Subject, dice
from tests.servers.mariadb_server import MariadbServer
from tests.torture.scale import times

SECONDS = times(120, 3)
GROUPS, WORKERS = times(100, 6), times(8, 3)
JOBS = times(20_000, 90)
ACT = "tests.stores.mysql.workers:works"


def test_no_job_is_lost_and_no_order_broken_under_kills(
    new_mariadb: Callable[..., MariadbServer], tmp_path: Path
) -> None:
    # Given accepted jobs, and workers that record each execution
    server = new_mariadb("innodb_flush_log_at_trx_commit=1")
    chance = dice("queues on a killed MariaDB")
    with Client(server.url) as client:
        queue = client.queue("bank")
        for start in range(0, JOBS, 500):
            numbers = range(start, min(start + 500, JOBS))
            queue.put_many({"payload": at, "group": f"g{at % GROUPS}"} for at in numbers)
        made = [0]

        def begin() -> Subject:
            made[0] += 1
            return Subject(ACT, server.url, "bank", str(tmp_path / f"{made[0]}"))

        crew = [begin() for _ in range(WORKERS)]
        # When workers are killed again and again, and the server once
        deadline = time.monotonic() + SECONDS
        killed = False
        while time.monotonic() < deadline:
            time.sleep(0.7)
            at = chance.randrange(WORKERS)
            os.kill(crew[at].pid, signal.SIGKILL)
            crew[at].__exit__()
            crew[at] = begin()
            if not killed and time.monotonic() > deadline - SECONDS / 2:
                server.kill()
                server.start()
                killed = True
        until = time.monotonic() + times(600, 60)
        while time.monotonic() < until:
            try:
                if not (left := queue.stats()).waiting + left.taken:
                    break
            except StoreUnavailable:
                pass
            time.sleep(0.2)
        for one in crew:
            one.__exit__()
        left = queue.stats()
    # Then each job was done, in the order of its group, one at a time
    assert (left.waiting, left.taken, left.dead) == (0, 0, 0)
    check(tmp_path)


def check(place: Path) -> None:
    """Check the records of the workers: the number, fence, start and end of each execution."""
    done: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
    for file in place.iterdir():
        for line in file.read_text().splitlines():
            if line.endswith("]"):
                number, fence, begun, ended = json.loads(line)
                done[number].append((fence, begun, ended))
    print(f"{sum(map(len, done.values()))} executions of {len(done)} jobs")
    # A worker that was killed before it wrote its record can have done its job; then the ack shows
    # that
    assert len(done) >= JOBS - times(400, 20)
    for group in range(GROUPS):
        turns = sorted(
            (fence, number, begun, ended)
            for number in range(group, JOBS, GROUPS)
            for fence, begun, ended in done[number]
        )
        numbers = [number for _, number, _, _ in turns]
        assert numbers == sorted(numbers), f"the order of group {group} is broken"
        for soon, late in itertools.pairwise(turns):
            assert late[2] >= soon[3], f"two at once in group {group}: {soon}, {late}"
