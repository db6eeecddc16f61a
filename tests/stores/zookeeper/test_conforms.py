"""The kits on an ensemble of three servers, and with the other recipes.

Every run of the tests runs the whole conformance kit, and some rows of the server kit's fault
matrix, on one server with the usual recipe. This file runs some cases for each primitive and face,
and the rows with one fault; and all of them with ``HOLDFAST_TORTURE=full``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing import server
from holdfast.testing.conformance import PRIMITIVES, Run, runs
from holdfast.testing.faces import FACES
from tests.ahead import Ahead
from tests.servers.zookeeper import Ensemble, ZooKeeperServer
from tests.stores.zookeeper.conftest import LINE, SIMPLE
from tests.stores.zookeeper.frames import CREATE, DELETE, MULTI, ZOOKEEPER, of_kind
from tests.torture.scale import spread, times

AT_ONCE = 4
#: Number of runs for each primitive and face, spread over the kit.
EACH = times(1000, 3)
#: Number of runs with the other recipes, on which only this file runs the kit.
RECIPES = {"simple": times(1000, 5), "curator": EACH}


def play(store: str, each: int, url: str) -> None:
    """Play some runs of the kit for each primitive and face, ``AT_ONCE`` at the same time."""
    everything = [run for run in runs(store) if not run.case.alone]
    chosen: list[Run] = []
    for primitive in PRIMITIVES:
        for face in FACES:
            mine = [run for run in everything if (run.primitive, run.face) == (primitive, face)]
            assert mine
            chosen += spread(mine, each)
    with Ahead(lambda run: run.on(url), chosen, AT_ONCE) as ahead:
        for run in chosen:
            try:
                ahead[run]
            except Exception as wrong:
                wrong.add_note(f"in the run {run}")
                raise


@pytest.mark.usual(0)
def test_the_kit_holds_on_an_ensemble(new_ensemble: Callable[..., Ensemble]) -> None:
    play("zookeeper", EACH, f"{new_ensemble().url}?session=60")


@pytest.mark.usual(1)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_kit_holds_with_the_other_recipes(recipe: str, zookeeper_url: str) -> None:
    options = f"recipe={recipe}&prefix={recipe}"
    play(f"zookeeper?recipe={recipe}", RECIPES[recipe], f"{zookeeper_url}?{options}&session=60")


#: The rows with one fault. (kazoo ends if one message of a connection is missing.)
ROWS = [run for run in server.runs(("join", "leave")) if run.trouble and not run.trouble.again]
ROWS = [run for run in ROWS if "a_lost" not in str(run)]
#: The requests that enter and leave, of each recipe.
KINDS = {LINE: (CREATE, DELETE), SIMPLE: (MULTI, MULTI)}


@pytest.mark.usual(8)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_is_lost_on_the_way_leaves_no_node_behind(
    row: server.Run, recipe: str, shared_zookeeper: ZooKeeperServer
) -> None:
    join, leave = KINDS[recipe]
    bench = server.Bench(
        lambda host, port: f"zookeeper://{host}:{port}?session=20&{recipe}",
        shared_zookeeper.host,
        shared_zookeeper.port,
        {
            "join": of_kind(join, having=b"server-kit"),
            "leave": of_kind(leave, having=b"server-kit"),
        },
        ZOOKEEPER,
    )
    row.on(bench)
