"""The verbs of the embedded store against the memory store: random sequences, equal replies."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.model import (
    Claim,
    Gone,
    Held,
    Kind,
    Loss,
    Refused,
    Renewal,
    Spec,
    Waiting,
)
from holdfast.runtime.blocking import run_sync
from holdfast.stores.sqlite.blocking import entry, way
from tests.fenced.process import Child
from tests.stores.sqlite.desk import WITHIN_S, Desk, claim
from tests.stores.twins import Twins
from tests.torture.scale import seed_of

SEED = seed_of("lines, as in memory")


class FileTwins(Twins):
    """The embedded store and the memory store, compared verb by verb."""

    def __init__(self, desk: Desk, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(seed)
        self.store = desk.store
        for module in (entry, way):
            monkeypatch.setattr(module, "boottime", lambda: self.now)

    def at(self, now: float) -> float:
        return now

    def ask(self, verb: str, *what: Any) -> Any:
        if verb == "inspect":
            prefix, exact = what
            return run_sync(self.store.inspect(prefix, WITHIN_S, exact))
        return run_sync(getattr(self.store, verb)(*what, WITHIN_S))

    def same_hint(self, theirs: Waiting | Refused, ours: Waiting | Refused, name: str) -> bool:
        # Both are lower bounds of the same expiry; the embedded store's bound can be closer.
        return theirs.retry_in - 1e-6 <= ours.retry_in <= 1.0


@pytest.mark.usual(8)
@pytest.mark.parametrize("turn", range(20))
def test_random_verbs_are_answered_as_the_memory_store_answers_them(
    turn: int, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    FileTwins(desk(), SEED + turn, monkeypatch).walk()


def test_a_batch_answers_each_claim_by_itself(here: Desk) -> None:
    # Given a held claim, a waiter, an unknown claim, and a claim whose name no database accepts
    spec = Spec("a", Kind.LOCK, 1, 1, 30.0, "me")
    held, waits, never = (Claim(c * 32, spec) for c in "123")
    broken = Claim("4" * 32, spec._replace(name="\ud800"))
    first, second = here.join(held), here.join(waits)
    assert isinstance(first, Held)
    assert isinstance(second, Waiting)
    # When they are renewed in one batch
    asked = [(broken, 7), (held, first.fence), (never, 9), (waits, second.ticket)]
    answers = here.renew_all([Renewal(one, ticket, 30.0) for one, ticket in asked])
    # Then each has a separate reply
    for answer, kind in zip(answers, (Exception, Held, Gone, Waiting), strict=True):
        assert isinstance(answer, kind)


@pytest.mark.parametrize("granted", [False, True])
def test_a_waiter_of_a_dead_process_is_gone_for_all_who_ask(
    granted: bool, path: Path, here: Desk, there: Desk
) -> None:
    # Given a holder, a waiter, and a second waiter whose process is killed, perhaps after its grant
    here.hold(held := claim())
    here.join(waiter := claim())
    wanted = claim()

    def waits(child: Child) -> None:
        desk = Desk(path)
        answer = desk.join(wanted)
        assert isinstance(answer, Waiting)
        child.say(answer.ticket)
        signal.pause()

    with Child(waits) as child:
        ticket = int(child.hear())
        assert isinstance(there.turn(wanted, ticket), Waiting)
        if granted:
            assert here.leave(held)
            assert here.leave(waiter)
            assert isinstance(there.turn(wanted, ticket), Held)
        child.send(signal.SIGKILL)
        child.end()
    # When another process asks for it, then it is gone
    assert there.turn(wanted, ticket) == Gone(Loss.EXPIRED)
