"""The kits on an ensemble of three servers, and with the other recipes.

Every run of the tests runs the whole conformance kit, and some rows of the server kit's fault
matrix, on one server with the usual recipe. This file runs some cases for each primitive and face,
and the rows with one fault; and all of them with ``HOLDFAST_TORTURE=full``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing import server
from tests.conformance.some import play
from tests.servers.zookeeper import Ensemble, ZooKeeperServer
from tests.stores.zookeeper.conftest import LINE, SIMPLE
from tests.stores.zookeeper.frames import CREATE, DELETE, MULTI, ZOOKEEPER, of_kind
from tests.torture.scale import times

#: Number of runs for each primitive and face, spread over the kit.
EACH = times(1000, 3)
#: Number of runs with the other recipes, on which only this file runs the kit.
RECIPES = {"simple": times(1000, 5), "curator": EACH}


@pytest.mark.usual(0)
def test_the_kit_holds_on_an_ensemble(new_ensemble: Callable[..., Ensemble]) -> None:
    play("zookeeper", f"{new_ensemble().url}?session=60", EACH)


@pytest.mark.usual(1)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_kit_holds_with_the_other_recipes(recipe: str, zookeeper_url: str) -> None:
    options = f"recipe={recipe}&prefix={recipe}"
    url = f"{zookeeper_url}?{options}&session=60"
    play(f"zookeeper?recipe={recipe}", url, RECIPES[recipe])


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
