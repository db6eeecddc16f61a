"""holdfast's stores give the same answers as the model, and the comparison finds planted faults."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import url
from holdfast.core.model import Change, Claim, Gone, Held, Kind, Loss, Spec
from holdfast.runtime.blocking import BlockingRuntime, run_sync
from holdfast.stores.memory import blocking
from holdfast.stores.memory.line import Lines
from holdfast.testing import differential
from holdfast.testing.differential.known import Known
from holdfast.testing.differential.pair import Pair
from tests.conformance import planted
from tests.conformance.test_conformance import STORES
from tests.mutants.failure import Failure, broken, chosen, judge
from tests.shared_stores import url_of
from tests.torture.scale import seed_of, times

STEPS = times(2500, 1200)
#: All stores but two kinds: those without a line, and stores whose claims live as long as a
#: session. In the model, claims expire separately.
LIKE_THE_MODEL = [
    one
    for one in STORES
    if (can := url.find(f"{one}://")[0].CAPABILITIES).own_expiry and can.visible_line
]


@pytest.fixture
def place(store: str, own_name: str, request: pytest.FixtureRequest) -> str:
    return url_of(store, request, own_name)


@pytest.mark.usual(5)
@pytest.mark.parametrize("face", ["sync", "aio"])
@pytest.mark.parametrize("store", LIKE_THE_MODEL)
def test_the_store_answers_as_the_model_does(face: str, place: str) -> None:
    seed = seed_of("store and model")
    summary = differential.check(place, face=face, seed=seed, steps=STEPS)
    assert summary.restarts < STEPS / 50
    one = {"join", "renew", "turn", "change", "leave", "break_", "wait", "inspect", "resize"}
    assert set(summary.verbs) == one | {"join_free", "leave_all"}
    answers = {"Held", "Waiting", "Refused", "Gone", "Mismatch"}
    if url.find(place)[0].CAPABILITIES.wakes_waiters:
        answers.add("Granted")
    assert set(summary.answers) >= answers
    assert summary.answers["Together"] > 5
    assert min(summary.verbs.values()) > 15


Play = Callable[[Callable[[Pair, str], Coroutine[Any, Any, object]]], Any]


@pytest.fixture
def play(place: str) -> Play:
    """Return a function that plays verbs on the store and on the model."""
    module, parsed = url.find(place)
    start = f"differential:{os.urandom(8).hex()}:"

    def played(text: Callable[[Pair, str], Coroutine[Any, Any, object]]) -> Any:
        async def main() -> object:
            store = module.open_blocking(parsed)
            try:
                await store.inspect(start, 10.0)  # connecting takes longer than a verb may
                return await text(Pair(store, BlockingRuntime(), 0, start), start)
            finally:
                await store.close()

        return run_sync(main())

    return played


def known(name: str, ttl: float) -> Known:
    return Known(Claim(os.urandom(16).hex(), Spec(name, Kind.LOCK, 1, 1, ttl, "owner", "")))


@pytest.mark.parametrize("store", LIKE_THE_MODEL)
def test_a_claim_reported_as_expired_is_not_reported_as_broken_later(play: Play) -> None:
    async def told(pair: Pair, start: str) -> object:
        # Given a claim that the store has reported as expired
        claim = known(start + "x", 0.05)
        change = Change(claim.claim, 0, 0.05)
        assert await pair.join(claim, True)
        time.sleep(0.1)
        before = await pair.change(claim, change)
        # When a client that inspected the claim earlier breaks it
        await pair.break_(claim)
        return before, await pair.change(claim, change)

    # Then the break has changed nothing, in the store as in the model
    assert play(told) == (Gone(Loss.EXPIRED), Gone(Loss.EXPIRED))


@pytest.mark.parametrize("store", LIKE_THE_MODEL)
def test_a_claim_that_the_store_granted_earlier_may_have_less_lease_left(play: Play) -> None:
    async def compared(pair: Pair, start: str) -> None:
        # Given a waiter behind a dead holder
        busy, dead = known(start + "busy", 30.0), known(start + "a", 0.05)
        waits = known(start + "a", 30.0)
        for one in (busy, dead, waits):
            assert await pair.join(one, True)
        time.sleep(0.1)
        # When an acquire of several names is refused because of another one of its names
        assert not await pair.join_free([known(start + "busy", 30.0), known(start + "a", 30.0)])
        time.sleep(0.1)
        # Then the waiter's next request may leave its remaining lease, or renew its waiter TTL
        await pair.turn(waits)
        await pair.join(waits, True)
        await pair.inspect(start, exact=False)

    play(compared)


class OwnTime(BlockingRuntime):
    """A runtime on whose clock time passes only during a sleep, so that no slow machine counts."""

    def __init__(self) -> None:
        self.passed = 1000.0

    def now(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.passed += max(seconds, 0.0) + 1e-6  # as any sleep takes a bit longer

    def boottime(self) -> float:
        """The clock for the memory store."""
        return self.passed


def test_the_same_seed_goes_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnTime()
    monkeypatch.setattr(differential, "BlockingRuntime", lambda: own)
    monkeypatch.setattr(blocking, "boottime", own.boottime)
    one, other = (differential.check("memory://same", seed=4, steps=300) for _ in range(2))
    another = differential.check("memory://same", seed=5, steps=300)
    assert one.restarts == 0
    assert one == other
    assert another._replace(seed=one.seed) != one


class ForgetsTombs(Lines):
    def _bury(self, *what: Any) -> None:
        self.tombs.clear()


class LengthensNothing(Lines):
    def renew(self, renewal: Any, now: float) -> Any:
        answer, pokes = super().renew(renewal, now)
        if isinstance(answer, Held) and not pokes:
            row = self.lines[renewal.claim.spec.name].held[renewal.claim.id]
            return Held(answer.fence, max(0.0, row.expires - now - 1.0)), pokes
        return answer, pokes


class EntersTwice(Lines):
    def _again(self, line: Any, claim: Any, now: float) -> Any:
        line.held.pop(claim.id, None)
        line.waiting.pop(claim.id, None)
        return self._enter(line, claim, now, False, None)


#: A push may be lost, so a store without wake-ups gives no wrong answer.
ALLOWED = {planted.WakesNobody}
FAULTS = {one.__name__: one for one in planted.FAULTS if one not in ALLOWED}
FAULTS |= {
    one.__name__: one
    for one in (
        ForgetsTombs,
        LengthensNothing,
        EntersTwice,
        planted.GrantsByRenewal,
    )
}
TABLE = "differential"
#: A slow machine takes another walk with the same seed, so a rare fault may need several walks.
SEEDS = range(11, 16)


def difference(scheme: str) -> differential.Difference | None:
    """The first difference that is found, or None."""
    for seed in SEEDS:
        try:
            differential.check(f"{scheme}://", steps=3000, seed=seed)
        except differential.Difference as found:
            return found
    return None


def kind(found: differential.Difference) -> Failure:
    """The verb and both answers, the store's and the model's, without the claim's details."""
    *_, verb, theirs, ours = (line.strip() for line in str(found).splitlines())
    said = theirs.removeprefix("the store").strip(), ours.removeprefix("the model").strip()
    assert ours.startswith("the model"), str(found)
    told = (re.match(r"\W*\w*", text)[0] for text in (verb, *said))  # type: ignore[index]
    return Failure("Difference", "{}: {} instead of {}".format(*told))


@pytest.mark.parametrize("name", chosen(TABLE, FAULTS, FAULTS))
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = f"planted-{name.lower()}"
    monkeypatch.setitem(url.BUILTIN, scheme, planted.module(FAULTS[name]))
    found = difference(scheme)
    assert found is not None
    assert "seed=" in str(found)
    judge(TABLE, name, kind(found), broken(found))
