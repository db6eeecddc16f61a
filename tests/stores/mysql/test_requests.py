"""Each verb sends the statement that was recorded."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.mysql.guard_calls import GuardCalls
from holdfast.stores.mysql.queue_calls import QueueCalls
from holdfast.stores.mysql.statements import IDLE_S, SWEEP_ROWS, LockCalls, Statements
from tests.stores import requests as r

RECORDED = Path(__file__).with_name("requests.txt")
PLACES = ((9, b"", True), (10, b"grp", False))


def _locks(calls: LockCalls) -> list[tuple[str, str]]:
    return [
        ("join", calls.join(r.CLAIMS[0], True)),
        ("join", calls.join(r.CLAIMS[1], False)),
        ("turn", calls.turn(r.CLAIMS[0])),
        ("renew_one", calls.renew_one(r.RENEWALS[1])),
        ("change", calls.change(r.CHANGES[0])),
        ("change", calls.change(r.CHANGES[1])),
        ("_leave", calls.leave(r.LEAVES[0])),
        ("break_", calls.break_("ä", 7)),
        ("_leave", calls.leave(r.LEAVES[1])),
        ("resize", calls.resize("ä", 3)),
        ("sweep", calls.sweep(SWEEP_ROWS, IDLE_S)),
        ("renew", calls.renew(r.RENEWALS)),
        ("leave_all", calls.leave_all(r.LEAVES)),
        ("join_free", calls.join_free(r.CLAIMS)),
        ("peek", calls.peek("ä", 7)),
        ("inspect", calls.inspect("ä", exact=True)),
        ("inspect", calls.inspect("ä", exact=False)),
        ("inspect", calls.inspect("", exact=False)),
    ]


def _guards(calls: GuardCalls) -> list[tuple[str, str]]:
    return [
        ("read", calls.read(r.ENTRIES[0])),
        ("read_all", calls.read_all("g", ("ä", ""))),
        ("ended", calls.ended(r.ENTRIES[0])),
        ("begin", calls.begin(r.WISH)),
        ("finish", calls.finish(r.FINISH)),
        ("abandon", calls.abandon(r.ABANDON, 40.0)),
        ("prolong", calls.prolong(r.PROLONGS)),
        ("invalidate", calls.invalidate(r.ENTRIES)),
        ("sweep", calls.sweep(64, 3)),
        ("look", calls.look(r.ENTRIES[0])),
        ("_survey", calls.survey("g", exact=False)),
        ("tally", calls.tally("g", r.COUNTS)),
    ]


def _queues(calls: QueueCalls) -> list[tuple[str, str]]:
    return [
        ("put", calls.put(r.PUT)),
        ("take", calls.take(r.TAKE, 0)),
        ("take", calls.take(r.PACED, 1)),
        ("give_back", calls.give_back(r.TAKE)),
        ("settle", calls.settle("q", r.SETTLES)),
        ("extend", calls.extend("q", r.EXTENDS)),
        ("revive", calls.revive("q", PLACES)),
        ("purge", calls.purge("q", PLACES)),
        ("sweep", calls.sweep("q", 64)),
    ]


def test_each_verb_is_the_recorded_statement() -> None:
    found: list[str] = []
    tables: list[tuple[type[Statements], list[tuple[str, str]]]] = [
        (LockCalls, _locks(LockCalls("holdfast"))),
        (GuardCalls, _guards(GuardCalls("holdfast"))),
        (QueueCalls, _queues(QueueCalls("other_9"))),
    ]
    for table, calls in tables:
        said = [f"{verb} {sql}" for verb, sql in calls]
        assert not r.left_out(table, said)
        found += said
    r.check(RECORDED, found)
