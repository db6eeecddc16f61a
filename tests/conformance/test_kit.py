"""Tests of the kit: it finds planted faults, and tests only what a store declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import url
from holdfast.core import policy
from holdfast.stores.memory import CAPABILITIES
from holdfast.stores.memory.line import Lines
from holdfast.testing import conformance
from holdfast.testing.conformance import Run, kit, runs
from tests.ahead import Ahead, asked
from tests.conformance.planted import FAULTS, WakesNobody, module
from tests.mutants.failure import broken, chosen, failure, judge

Register = Callable[..., str]
Found = Ahead[type[Any], dict[str, Exception]]
#: The table that records how the kit finds each fault.
TABLE = "kit"
FACES = ("sync", "aio")
EACH = {f"{fault.__name__} {face}": (fault, face) for fault in FAULTS for face in FACES}


def scheme_of(fault: type[Any]) -> str:
    return f"planted-{fault.__name__.lower()}"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Return a function that registers a store with a fault, and returns its scheme."""

    def act(fault: type[Any], **options: Any) -> str:
        scheme = scheme_of(fault)
        monkeypatch.setitem(url.BUILTIN, scheme, module(fault, **options))
        return scheme

    return act


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[Found]:
    """The kit's failures on each store with a fault, by face; several stores run at a time."""
    names = asked(request, "test_a_planted_fault_is_found", "name")
    faults = dict.fromkeys(EACH[name][0] for name in names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit, "LIMIT_S", 5.0)
        patch.setattr(policy, "NAP_S_MAX", WakesNobody.asks_again_s)
        for fault in faults:
            patch.setitem(url.BUILTIN, scheme_of(fault), module(fault))
        with Ahead(_find, faults, at_once=8) as ahead:
            yield ahead


def _find(fault: type[Any]) -> dict[str, Exception]:
    """Run the case that must find the fault, and return its failure on each face."""
    failures, scheme = {}, scheme_of(fault)
    mine = [run for run in runs(scheme) if f"{run.primitive}-{run.case.name}" == FAULTS[fault]]
    for run in mine:
        try:
            run.on(f"{scheme}://")
        except Exception as failure:
            failures[run.face] = failure
    return failures


@pytest.mark.parametrize("name", chosen(TABLE, EACH, EACH))
def test_a_planted_fault_is_found(name: str, found: Found) -> None:
    fault, face = EACH[name]
    assert face in found[fault]
    judge(TABLE, name, failure(found[fault][face]), broken(found[fault][face]))


class Poor(Lines):
    """A store with all operations that declares almost no capability."""


def test_what_a_store_can_not_do_must_be_refused(register: Register) -> None:
    flags = dict.fromkeys(conformance.OPERATIONS | {"fair", "wakes_waiters"}, False)
    scheme = register(Poor, can=CAPABILITIES._replace(**flags))
    lacking = [run for run in runs(scheme) if run.lacks]
    assert {run.lacks for run in lacking} == conformance.OPERATIONS
    with ThreadPoolExecutor(8) as pool:
        for ended in [pool.submit(run.on, f"{scheme}://") for run in lacking]:
            ended.result()


def test_a_property_that_a_store_does_not_have_is_not_asked_for(register: Register) -> None:
    scheme = register(Poor, can=CAPABILITIES._replace(fair=False))
    asked = {run.case.name for run in runs(scheme)}
    assert "waiters_are_served_in_order_of_arrival" not in asked
    assert "never_two_are_inside_at_once" in asked


def test_a_store_that_does_what_it_declares_impossible_is_found(register: Register) -> None:
    # Given a store that can resize and declares that it can't
    scheme = register(Poor)
    wanted = f"{scheme}-sync-semaphore-fewer_permits_take_nothing_away"
    (run,) = (one for one in runs(scheme) if str(one) == wanted)
    with pytest.raises(AssertionError, match="declares no resize"):
        run._replace(lacks="resize").on(f"{scheme}://")


async def leaves_one(at: Any) -> None:
    await at.locks.lock(at.name, auto_renew=False).acquire()


async def hangs(at: Any) -> None:
    await at.lock().acquire()
    await at.rival().acquire()


@pytest.mark.parametrize(
    "text, error, said",
    [(leaves_one, AssertionError, "claims are left"), (hangs, TimeoutError, "in hangs")],
)
def test_a_case_that_leaves_a_claim_or_hangs_fails(
    text: Any, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "LIMIT_S", 2.0)
    case = conformance.Case(text, ("lock",), ("sync",), (), False)
    with pytest.raises(error, match=said):
        Run("memory", "sync", "lock", case).on("memory://kit")
