"""Requests to compare with recorded ones: one example for each verb, and for each variant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from holdfast.core.guard.model import Abandon, Entry, Finish, GuardCounts, Prolong, Wish
from holdfast.core.model import Change, Claim, Kind, Leave, Renewal, Spec
from holdfast.core.queue.model import Extend, Job, Pace, Patience, Put, Settle, Start, Take, Verdict
from holdfast.runtime.codec import Row

ONE, TWO = "0" * 31 + "1", "f" * 31 + "2"
CLAIMS = (
    Claim(ONE, Spec("ä", Kind.LOCK, 1, 1, 30.0, "host:1:me", "")),
    Claim(TWO, Spec("b'", Kind.RWLOCK, 1 << 20, 3, 0.0123456, 'w"\\', "note")),
)
RENEWALS = (Renewal(CLAIMS[0], 7, 30.0), Renewal(CLAIMS[1], 8, 1.5, weight=2))
CHANGES = (Change(CLAIMS[0], 7, 30.0, detach=True), Change(CLAIMS[1], 8, 1.5, new_id=ONE))
LEAVES = (Leave("ä", ONE, 7), Leave("b", TWO, 8, after=0.25, suspect=True, ttl=10.0))
ENTRIES = (Entry("g", "ä"), Entry("g", ""))
WISH = Wish(ENTRIES[0], ONE, "host:1:me", 10.0, known=3)
FINISH = Finish(ENTRIES[0], ONE, 5, b"\0x", 60.0, 30.0, 0.0, 0.125)
ABANDON = Abandon(ENTRIES[0], ONE, 10.0, 2.0, 60.0, "why", suspect=True)
PROLONGS = (Prolong(ENTRIES[0], ONE, 5, 10.0), Prolong(ENTRIES[1], TWO, 6, 2.5))
COUNTS = GuardCounts(1, 2, 3, 4, 5, 6, 7, 8, 9)
JOBS = (
    Job(ONE, "", b"\0x"),
    Job("ä", "grp", b"", delay=2.5, known=True),
    Job("c", "grp", b"{}", delay=0.0, known=True),
)
PUT = Put("q", TWO, 4, JOBS, 60.0)
TAKE = Take("q", ONE, 5, 30.0, "host:1:me", Pace(), Patience())
PACED = TAKE._replace(
    most=5000, pace=Pace(1.5, Start.TAKE, 200.0), patience=Patience(3, blocks=True)
)
SETTLES = (
    Settle("q", "", 9, ONE, Verdict.ACK),
    Settle("q", "grp", 10, TWO, Verdict.RETRY, 2.5, "ä", 10.0, suspect=True),
    Settle("q", "h", 11, ONE, Verdict.DEAD),
    Settle("q", "i", 12, TWO, Verdict.RETURN),
)
EXTENDS = (Extend("q", "", 9, ONE, 5, 30.0), Extend("q", "grp", 10, TWO, 6, 2.5))


def check(recorded: Path, requests: list[str]) -> None:
    """Compare the requests with the recorded ones; with HOLDFAST_RECORD, record them instead."""
    text = "\n".join(requests) + "\n"
    if os.environ.get("HOLDFAST_RECORD"):
        recorded.write_text(text)
    assert text == recorded.read_text()


def left_out(table: type[Any], examples: list[str]) -> set[str]:
    """Return the verbs of a table without an example; an example begins with its verb."""
    rows = {name for name, row in vars(table).items() if isinstance(row, Row)}
    return rows - {one.partition(" ")[0] for one in examples}
