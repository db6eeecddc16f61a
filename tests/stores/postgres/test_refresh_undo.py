"""The undo of a request for a refresh lease while that request isn't committed yet."""

from __future__ import annotations

from holdfast import Client
from holdfast.core.guard.model import Abandon, Duty
from holdfast.runtime.blocking import run_sync
from holdfast.testing.promise import promised
from tests.stores.postgres.conftest import Bench
from tests.stores.sql.refresh import begin, guards_of, meanwhile, rows, wish


def test_an_undo_that_meets_what_it_undoes_waits_for_it(
    bench: Bench, locks: Client, own_name: str
) -> None:
    # Given an uncommitted request for the refresh lease of a new entry, whose caller gives it up on
    # another connection
    first = wish(own_name)
    given_up = Abandon(first.entry, first.id, 60.0, suspect=True)

    def undo() -> bool:
        return bool(run_sync(guards_of(locks).abandon(given_up, 10.0)))

    # Then the undo waits for the request, and ends the lease
    with promised("an undo leaves nothing of what it undoes"):
        assert meanwhile(bench.open_begin(first), undo)
    assert isinstance(begin(locks, wish(own_name)), Duty)


def test_an_undo_of_a_request_that_never_came_leaves_nothing_after_a_sweep(
    bench: Bench, locks: Client, own_name: str
) -> None:
    never = wish(own_name)
    given_up = Abandon(never.entry, never.id, 1.0, suspect=True)
    assert run_sync(guards_of(locks).abandon(given_up, 10.0)) is False
    bench.sweep(locks, 3600.0)
    assert rows(bench, own_name) == {}
