"""Each verb is the recorded call: its statement, and each of its values and formats."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.queue.model import JobState
from holdfast.stores.postgres.calls import Call, Calls, LockCalls, span
from holdfast.stores.postgres.config import Settings
from holdfast.stores.postgres.guard_calls import GuardCalls
from holdfast.stores.postgres.queue_calls import QueueCalls
from tests.stores import requests as r

RECORDED = Path(__file__).with_name("requests.txt")
SETTINGS = Settings(("",), "")
STRICT = SETTINGS._replace(schema="other", relaxed=True, recovery="strict", grace=7.25)


def _said(verb: str, call: Call) -> str:
    known, values, bound = call
    formats = "".join(map(str, known.formats))
    how = f"{known.name.decode()} {formats} {known.answer} {known.urgent:d} {known.usual}"
    return f"{verb} {how} {bound}\n  {known.sql.decode()}\n  {values}"


def _locks(calls: LockCalls) -> list[tuple[str, Call]]:
    return [
        ("join", calls.join(r.CLAIMS[0], True, "address")),
        ("join", calls.join(r.CLAIMS[1], False, "")),
        ("join_free", calls.join_free(r.CLAIMS)),
        ("renew", calls.renew(r.RENEWALS)),
        ("renew_one", calls.renew_one(r.RENEWALS[1])),
        ("change", calls.change(r.CHANGES[0])),
        ("change", calls.change(r.CHANGES[1])),
        ("turn", calls.turn(r.CLAIMS[0], "address")),
        ("leave", calls.leave(r.LEAVES[0])),
        ("break_", calls.break_("ä", 7)),
        ("undo", calls.undo(r.LEAVES[1])),
        ("leave_all", calls.leave_all(r.LEAVES)),
        ("resize", calls.resize("ä", 3)),
        ("inspect", calls.inspect(*span("ä", exact=True))),
        ("inspect", calls.inspect(*span("ä", exact=False))),
        ("inspect", calls.inspect(*span("", exact=False))),
        ("look", calls.look()),
        ("reclaim", calls.reclaim(r.RENEWALS[1], 2)),
    ]


def _guards(calls: GuardCalls) -> list[tuple[str, Call]]:
    return [
        ("read", calls.read(r.ENTRIES[0])),
        ("read_all", calls.read_all(r.ENTRIES)),
        ("begin", calls.begin(r.WISH, "address")),
        ("finish", calls.finish(r.FINISH)),
        ("abandon", calls.abandon(r.ABANDON, 40.0)),
        ("prolong", calls.prolong(r.PROLONGS)),
        ("invalidate", calls.invalidate(r.ENTRIES)),
        ("tidy", calls.tidy(64, 3)),
        ("look", calls.look(r.ENTRIES[0])),
        ("survey", calls.survey(*span("g", exact=False))),
        ("tally", calls.tally("g", r.COUNTS)),
    ]


def _queues(calls: QueueCalls) -> list[tuple[str, Call]]:
    return [
        ("put", calls.put(r.PUT, True)),
        ("take", calls.take(r.TAKE, "", 0, 0, 0, 0, ())),
        ("take", calls.take(r.PACED, "address", 1, 2, 3, 4, (r.ONE, r.TWO))),
        ("give_back", calls.give_back(r.TAKE)),
        ("settle", calls.settle(r.SETTLES)),
        ("extend", calls.extend(r.EXTENDS)),
        ("survey", calls.survey(*span("q", exact=False))),
        ("jobs", calls.jobs("q", None, "", 9)),
        ("jobs", calls.jobs("q", JobState.DEAD, None, 9)),
        ("letters", calls.letters("q", JobState.DEAD, None, 9)),
        ("revive", calls.revive("q", None)),
        ("revive", calls.revive("q", ("ä", "b"))),
        ("purge", calls.purge("q", JobState.WAITING, ("ä",), 9)),
        ("purge", calls.purge("q", None, None, 9)),
    ]


def test_each_verb_is_the_recorded_call() -> None:
    found: list[str] = []
    strict, off = LockCalls(STRICT, 2.0), LockCalls(SETTINGS._replace(recovery="off"))
    tables: list[tuple[type[Calls], list[tuple[str, Call]]]] = [
        (LockCalls, [*_locks(LockCalls(SETTINGS)), ("look", off.look())]),
        (LockCalls, [("join", strict.join(r.CLAIMS[0], True, "")), ("look", strict.look())]),
        (GuardCalls, _guards(GuardCalls(SETTINGS))),
        (QueueCalls, _queues(QueueCalls(STRICT))),
    ]
    for table, calls in tables:
        said = [_said(verb, call) for verb, call in calls]
        assert len(said) == 2 or not r.left_out(table, said)
        found += said
    r.check(RECORDED, found)
