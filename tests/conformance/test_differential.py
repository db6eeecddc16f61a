"""Our stores give the answers of the model, and the comparison finds planted faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import url
from holdfast.core.model import Held
from holdfast.stores.memory.line import Lines
from holdfast.testing import differential
from tests.conformance import planted
from tests.conformance.test_conformance import STORES

STEPS = 2500


@pytest.fixture
def place(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if store == "redis":
        server: str = request.getfixturevalue("redis_url")
        return server
    return {"memory": "memory://differential", "sqlite": f"sqlite://{tmp_path}/locks.db"}[store]


@pytest.mark.parametrize("face", ["sync", "aio"])
@pytest.mark.parametrize("store", STORES)
def test_the_store_answers_as_the_model_does(face: str, place: str) -> None:
    summary = differential.check(place, face=face, steps=STEPS)
    assert summary.restarts < STEPS / 50
    one, several = (
        {"join", "keep", "leave", "wait", "inspect", "resize"},
        {"join_free", "leave_all"},
    )
    assert set(summary.verbs) == one | several
    assert set(summary.answers) >= {"Held", "Waiting", "Refused", "Gone", "Mismatch", "Granted"}
    assert summary.answers["Together"] > 5
    assert min(summary.verbs.values()) > 20


def test_the_same_seed_goes_the_same_way() -> None:
    one, other = (differential.check("memory://same", seed=4, steps=300) for _ in range(2))
    if not one.restarts + other.restarts:
        assert one == other
    assert differential.check("memory://same", seed=5, steps=300) != one


class ForgetsTombs(Lines):
    def _bury(self, *what: Any) -> None:
        self.tombs.clear()


class LengthensNothing(Lines):
    def keep(self, keep: Any, now: float, address: Any = None) -> Any:
        answer, pokes = super().keep(keep, now, address)
        row = self.lines[keep.claim.spec.name].held.get(keep.claim.id) if pokes == [] else None
        if isinstance(answer, Held) and row is not None:
            return Held(answer.fence, max(0.0, row.expires - now - 1.0)), pokes
        return answer, pokes


class EntersTwice(Lines):
    def _again(self, line: Any, claim: Any, now: float) -> Any:
        line.held.pop(claim.id, None)
        line.waiting.pop(claim.id, None)
        return self._enter(line, claim, now, False, None)


#: A push may be lost, so a store that wakes nobody gives no wrong answer.
ALLOWED = {planted.WakesNobody}
FAULTS = [fault for fault in planted.FAULTS if fault not in ALLOWED]
FAULTS += [ForgetsTombs, LengthensNothing, EntersTwice]


@pytest.fixture
def fresh() -> Iterator[None]:
    before = dict(url.BUILTIN)
    yield
    url.BUILTIN.clear()
    url.BUILTIN.update(before)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: type[Any]) -> None:
    scheme = f"planted-{fault.__name__.lower()}"
    url.BUILTIN[scheme] = planted.module(fault)
    with pytest.raises(differential.Difference, match=r"seed=11[\s\S]*the model"):
        differential.check(f"{scheme}://", steps=3000, seed=11)
