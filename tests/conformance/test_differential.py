"""holdfast's stores give the same answers as the model, and the comparison finds planted faults."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import url
from holdfast.core.model import Claim, Gone, Held, Keep, Kind, Loss, Spec
from holdfast.runtime.blocking import BlockingRuntime, run_sync
from holdfast.stores.memory import blocking
from holdfast.stores.memory.line import Lines
from holdfast.testing import differential
from holdfast.testing.differential.known import Known
from holdfast.testing.differential.pair import Pair
from tests.conformance import planted
from tests.conformance.test_conformance import STORES
from tests.mutants.failure import Failure, broken, chosen, judge
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
def place(store: str, no_disk: Path, request: pytest.FixtureRequest) -> str:
    if store == "redis":
        server: str = request.getfixturevalue("redis_url")
        return server
    if store == "postgresql":
        database: str = request.getfixturevalue("postgres_url")
        return database
    if store == "mysql":
        mariadb: str = request.getfixturevalue("mariadb_url")
        return mariadb
    return {"memory": "memory://differential", "sqlite": f"sqlite://{no_disk}/differential.db"}[
        store
    ]


@pytest.mark.usual(5)
@pytest.mark.parametrize("face", ["sync", "aio"])
@pytest.mark.parametrize("store", LIKE_THE_MODEL)
def test_the_store_answers_as_the_model_does(face: str, place: str) -> None:
    seed = seed_of("store and model")
    summary = differential.check(place, face=face, seed=seed, steps=STEPS)
    assert summary.restarts < STEPS / 50
    one, several = (
        {"join", "keep", "leave", "break_", "wait", "inspect", "resize"},
        {"join_free", "leave_all"},
    )
    assert set(summary.verbs) == one | several
    answers = {"Held", "Waiting", "Refused", "Gone", "Mismatch"}
    if url.find(place)[0].CAPABILITIES.wakes_waiters:
        answers.add("Granted")
    assert set(summary.answers) >= answers
    assert summary.answers["Together"] > 5
    assert min(summary.verbs.values()) > 20


@pytest.mark.parametrize("store", LIKE_THE_MODEL)
def test_a_claim_reported_as_expired_is_not_reported_as_broken_later(place: str) -> None:
    # Given a claim that the store has reported as expired
    module, parsed = url.find(place)
    name = f"differential:{os.urandom(8).hex()}"
    spec = Spec(name, Kind.LOCK, 1, 1, 0.05, "owner", "")
    known = Known(Claim(os.urandom(16).hex(), spec))
    keep = Keep(known.claim, 0, 0.05)

    async def told() -> tuple[object, object]:
        store = module.open_blocking(parsed)
        try:
            await store.inspect(name, 10.0)  # connecting takes longer than a verb may
            pair = Pair(store, BlockingRuntime(), 0, name)
            assert await pair.join(known, True)
            time.sleep(0.1)
            before = await pair.keep([(known, keep)])
            # When a client that inspected the claim earlier breaks it
            await pair.break_(known)
            return before, await pair.keep([(known, keep)])
        finally:
            await store.close()

    # Then the break has changed nothing, in the store as in the model
    assert run_sync(told()) == ([Gone(Loss.EXPIRED)], [Gone(Loss.EXPIRED)])


@pytest.mark.parametrize("store", LIKE_THE_MODEL)
def test_a_claim_that_the_store_granted_earlier_may_have_less_lease_left(place: str) -> None:
    # Given a waiter behind a dead holder
    module, parsed = url.find(place)
    start = f"differential:{os.urandom(8).hex()}:"

    def claim(name: str, ttl: float) -> Known:
        return Known(Claim(os.urandom(16).hex(), Spec(start + name, Kind.LOCK, 1, 1, ttl, "o", "")))

    busy, dead, waits = claim("busy", 30.0), claim("a", 0.05), claim("a", 30.0)

    async def compared() -> None:
        store = module.open_blocking(parsed)
        try:
            await store.inspect(start, 10.0)  # connecting takes longer than a verb may
            pair = Pair(store, BlockingRuntime(), 0, start)
            for known in (busy, dead, waits):
                assert await pair.join(known, True)
            time.sleep(0.1)
            # When an acquire of several names is refused because of another one of its names
            assert not await pair.join_free([claim("busy", 30.0), claim("a", 30.0)])
            time.sleep(0.1)
            # Then the waiter's next renewal may leave its remaining lease, or renew its waiter TTL
            await pair.keep([(waits, Keep(waits.claim, 0, 0.05))])
            await pair.join(waits, True)
            await pair.inspect(start, exact=False)
        finally:
            await store.close()

    run_sync(compared())


class OwnTime(BlockingRuntime):
    """A runtime on whose clock time passes only during a sleep.

    With a real clock, a machine that is slow for some milliseconds lets a short lease end between
    two other verbs. Then the answers differ.
    """

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
    # Given a clock that doesn't depend on the machine
    own = OwnTime()
    monkeypatch.setattr(differential, "BlockingRuntime", lambda: own)
    monkeypatch.setattr(blocking, "boottime", own.boottime)
    # When two walks have the same seed, and one another seed
    one, other = (differential.check("memory://same", seed=4, steps=300) for _ in range(2))
    another = differential.check("memory://same", seed=5, steps=300)
    # Then only the walks with the same seed have the same result
    assert one.restarts == 0
    assert one == other
    assert another._replace(seed=one.seed) != one


class ForgetsTombs(Lines):
    def _bury(self, *what: Any) -> None:
        self.tombs.clear()


class LengthensNothing(Lines):
    def keep(self, keep: Any, now: float, address: Any = None) -> Any:
        answer, pokes = super().keep(keep, now, address)
        if isinstance(answer, Held) and not pokes and not keep.new_id:
            row = self.lines[keep.claim.spec.name].held[keep.claim.id]
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
FAULTS |= {one.__name__: one for one in (ForgetsTombs, LengthensNothing, EntersTwice)}
TABLE = "differential"
#: A slow machine takes another walk with the same seed, so a rare fault may need several walks.
SEEDS = range(11, 16)


@pytest.fixture
def fresh() -> Iterator[None]:
    before = dict(url.BUILTIN)
    yield
    url.BUILTIN.clear()
    url.BUILTIN.update(before)


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


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", chosen(TABLE, FAULTS, FAULTS))
def test_a_planted_fault_is_found(name: str) -> None:
    scheme = f"planted-{name.lower()}"
    url.BUILTIN[scheme] = planted.module(FAULTS[name])
    found = difference(scheme)
    assert found is not None
    assert "seed=" in str(found)
    judge(TABLE, name, kind(found), broken(found))
