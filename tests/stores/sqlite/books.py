"""The invariants of the queues database, checked on the raw tables without the code of the
store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def audit(path: Path) -> dict[str, tuple[int, int, int]]:
    """Check the whole database. Return, for each queue, the numbers of waiting, delivered and dead
    jobs."""
    with closing(sqlite3.connect(f"{path}-queues", timeout=10)) as books:
        assert books.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {}
        queues = "SELECT id, name, waiting, taken, dead, groups FROM queues"
        for number, name, *counts in books.execute(queues).fetchall():
            found[name] = _queue(books, number, counts)
        return found


def _queue(books: sqlite3.Connection, number: int, counts: list[int]) -> tuple[int, int, int]:
    def all_of(sql: str) -> set[Any]:
        return set(books.execute(sql, (number,)).fetchall())

    jobs = {job: (grp, dead, apart) for job, grp, dead, apart in all_of(_JOBS)}
    loans = dict(all_of("SELECT job, take FROM loans WHERE queue = ?"))
    ready = all_of("SELECT job, grp FROM ready WHERE lane >> 1 = ?")
    dead = sum(one[1] for one in jobs.values())
    assert counts[:3] == [len(jobs) - len(loans) - dead, len(loans), dead]
    assert counts[3] == len({grp for grp, _, _ in jobs.values() if grp})
    # The first job of each group and all ungrouped jobs are in ``ready``, except delivered or dead
    # ones.
    firsts = {}
    for job, (grp, _, apart) in sorted(jobs.items()):
        if not apart:
            firsts.setdefault(grp or -job, job)
    due = {one for one in firsts.values() if one not in loans and not jobs[one][1]}
    assert ready == {(one, jobs[one][0]) for one in due}
    sizes = dict(all_of("SELECT id, size FROM groups WHERE queue = ? AND size > 0"))
    groups = [grp for grp, _, _ in jobs.values() if grp]
    assert sizes == {grp: groups.count(grp) for grp in set(groups)}
    return counts[0], counts[1], counts[2]


_JOBS = "SELECT job, grp, dead, apart FROM jobs WHERE job >> 40 = ?"
