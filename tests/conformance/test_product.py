"""The kit leaves nothing out: its runs are the full product, its cases cover every primitive."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from holdfast import Client
from holdfast.core.model import Capabilities
from holdfast.testing import conformance
from holdfast.testing.conformance import PRIMITIVES, all_cases, cases
from holdfast.url import BUILTIN
from tests.conformance import test_conformance as ours
from tests.conformance.conftest import IN_PROCESS


def written() -> Iterator[str]:
    """The names of all cases in the files, registered or not."""
    for module in pkgutil.iter_modules(cases.__path__):
        members = vars(importlib.import_module(f"{cases.__name__}.{module.name}"))
        for name, member in members.items():
            if inspect.iscoroutinefunction(member) and not name.startswith("_"):
                parameters = inspect.signature(member).parameters.values()
                if [str(one.annotation) for one in parameters] == ["Arena"]:
                    yield name


def test_every_case_that_is_written_is_registered() -> None:
    names = list(written())
    assert len(names) > 100
    assert sorted(names) == sorted(one.name for one in all_cases())


def test_every_built_in_store_is_tested() -> None:
    modules = [BUILTIN[scheme] for scheme in ours.STORES]
    assert len(modules) == len(set(modules))
    assert set(modules) == set(BUILTIN.values())


#: The capabilities that no dialect has.
FOREIGN = {
    *("fair", "visible_line", "owners", "kinds", "election", "detach", "min_hold", "fences"),
    *("queues", "guards"),
}
ONLY_LOCKS = {"semaphore", "rwlock", "resize"}
#: Missing capabilities: operations, which are refused, and properties, whose cases don't run.
LACKS: dict[str, set[str]] = {
    "memory": {"across_processes"},
    "zookeeper": {"resize", "detach", "min_hold", "own_expiry", "guards"},
    "redis+plain": FOREIGN | ONLY_LOCKS,
    "redis+timestamp": FOREIGN | ONLY_LOCKS,
    "redis+redisson": FOREIGN | {"permits_reset_when_idle"},
}


def test_every_combination_is_run() -> None:
    wanted = {
        f"{store}-{face}-{primitive}-{one.name}"
        for store in ours.STORES
        for one in all_cases()
        for primitive in one.primitives
        for face in one.faces
        if not (LACKS.get(store, set()) & {*one.needs} - conformance.OPERATIONS)
    }
    given = [str(run) for run in ours.RUNS]
    assert len(given) == len(set(given))
    assert set(given) == wanted
    for run in ours.RUNS:
        missing = LACKS.get(run.store, set()) & conformance.OPERATIONS
        needs = {*run.case.needs, PRIMITIVES[run.primitive].needs}
        assert bool(run.lacks) == bool(missing & needs)


def test_in_turn_each_case_is_played_on_each_server_and_on_each_primitive_somewhere() -> None:
    everything = [run for run in ours.RUNS if run.store not in IN_PROCESS]
    chosen = conformance.in_turn(everything)
    # Then each case runs once on each face of each store, and the choice is always the same
    assert len(chosen) < len(everything) / 2
    assert len(chosen) == len({(run.store, run.face, run.case.name) for run in chosen})
    for what in (
        lambda run: (run.store, run.face, run.case.name),
        lambda run: (run.store, run.primitive),
    ):
        assert {*map(what, chosen)} == {*map(what, everything)}
    assert chosen == conformance.in_turn(conformance.runs(*dict.fromkeys(r.store for r in chosen)))
    # And a case runs on as many primitives as there are places where it isn't refused
    for one in all_cases():
        mine = [run for run in everything if run.case is one and not run.lacks]
        places = {(run.store, run.face) for run in mine}
        played = {run.primitive for run in chosen if run.case is one and not run.lacks}
        assert len(played) == min(len({run.primitive for run in mine}), len(places)), one.name


def test_everything_that_a_client_makes_is_a_primitive_of_the_kit() -> None:
    kinds = {"Lock", "Semaphore", "RWLock", "MultiLock", "Election", "Queue", "Guard"}
    makers = {
        name
        for name, member in inspect.getmembers(Client, inspect.isfunction)
        if str(inspect.signature(member).return_annotation) in kinds
    }
    assert makers == {one.factory for one in PRIMITIVES.values()}


def test_every_operation_that_a_store_may_lack_is_needed_by_some_case() -> None:
    flags = {name for name, value in Capabilities("x")._asdict().items() if isinstance(value, bool)}
    assert flags >= conformance.OPERATIONS
    needed = {need for one in all_cases() for need in one.needs}
    needed |= {one.needs for one in PRIMITIVES.values() if one.needs}
    assert needed >= conformance.OPERATIONS | {"fair", "across_processes", "own_expiry"}
    assert needed <= flags
