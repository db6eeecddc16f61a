"""The conformance kit on an ensemble of three servers, and with the other recipes.

Every run of the tests runs the whole kit on one server with the usual recipe. This file runs some
cases for each primitive and face, and all of them with ``HOLDFAST_TORTURE=full``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from holdfast.testing.conformance import PRIMITIVES, Run, runs
from holdfast.testing.faces import FACES
from tests.servers.zookeeper import Ensemble
from tests.torture.scale import times

AT_ONCE = 4
#: Number of runs for each primitive and face, spread over the kit.
EACH = times(1000, 3)
#: Number of runs with the other recipes, on which only this file runs the kit.
RECIPES = {"zookeeper?recipe=simple": times(1000, 5), "zookeeper?recipe=curator": EACH}


def chosen(store: str, each: int) -> list[Run]:
    """Some runs of the kit for each primitive and face."""
    found: list[Run] = []
    everything = [run for run in runs(store) if not run.case.alone]
    for primitive in PRIMITIVES:
        for face in FACES:
            mine = [run for run in everything if (run.primitive, run.face) == (primitive, face)]
            found += mine[:: max(1, len(mine) // each)][:each]
    return found


def play(chosen: list[Run], url: str) -> None:
    """Play the chosen runs, ``AT_ONCE`` at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun: list[tuple[Run, Future[None]]] = [(run, pool.submit(run.on, url)) for run in chosen]
    for run, one in begun:
        if wrong := one.exception():
            wrong.add_note(f"in the run {run}")
            raise wrong


@pytest.mark.parametrize("store", ["zookeeper", *RECIPES])
def test_every_primitive_is_asked_on_both_faces(store: str) -> None:
    assert {(run.primitive, run.face) for run in chosen(store, EACH)} == {
        (primitive, face) for primitive in PRIMITIVES for face in FACES
    }


@pytest.mark.usual(0)
def test_the_kit_holds_on_an_ensemble(new_ensemble: Callable[..., Ensemble]) -> None:
    play(chosen("zookeeper", EACH), f"{new_ensemble().url}?session=60")


@pytest.mark.usual(1)
@pytest.mark.parametrize("store", RECIPES)
def test_the_kit_holds_with_the_other_recipes(store: str, zookeeper_url: str) -> None:
    recipe = store.partition("?")[2]
    prefix = recipe.partition("=")[2]
    play(chosen(store, RECIPES[store]), f"{zookeeper_url}?{recipe}&prefix={prefix}&session=60")
