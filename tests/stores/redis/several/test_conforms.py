"""The conformance kit where there are several servers.

All of it was run on both (see the page of this store); here each primitive on each face is asked
the questions by which a cluster could differ: waiting, being served, expiring, breaking, looking.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor

from holdfast.testing.conformance import PRIMITIVES, Run, runs
from holdfast.testing.faces import FACES
from tests.servers.cluster import Cluster
from tests.servers.sentinels import Watched
from tests.torture.scale import times

AT_ONCE = 4
#: Of each primitive on each face so many runs, spread over the kit.
EACH = times(12, 4)
#: In a cluster an id is known in its group and the lanes take turns within a shard: see
#: `test_queues.py` and the page of this store. The last one loses a reply above the code that asks
#: the same shard again, so the repeated take goes to another shard, and one job stays on loan.
OTHERWISE = frozenset(
    {
        "a_duplicate_is_dropped_and_says_so",
        "neither_lane_starves_the_other",
        "what_a_take_gives_back_comes_behind_those_that_were_due",
    }
)


def chosen(but: Collection[str] = ()) -> list[Run]:
    """Some runs of each primitive on each face, but for these."""
    found: list[Run] = []
    everything = [run for run in runs("redis") if not run.case.alone and run.case.name not in but]
    for primitive in PRIMITIVES:
        for face in FACES:
            mine = [run for run in everything if (run.primitive, run.face) == (primitive, face)]
            found += mine[:: max(1, len(mine) // EACH)][:EACH]
    return found


def played(url: str, but: Collection[str] = ()) -> None:
    """Run them, some at once; the first that fails is raised, and named."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun: list[tuple[Run, Future[None]]] = [
            (run, pool.submit(run.on, url)) for run in chosen(but)
        ]
    for run, one in begun:
        if wrong := one.exception():
            wrong.add_note(f"in the run {run}")
            raise wrong


def test_every_primitive_is_asked_on_both_faces() -> None:
    assert {(run.primitive, run.face) for run in chosen()} == {
        (primitive, face) for primitive in PRIMITIVES for face in FACES
    }


def test_the_kit_holds_in_a_cluster(cluster: Cluster) -> None:
    played(cluster.url, OTHERWISE)


def test_the_kit_holds_behind_sentinels(watched: Watched) -> None:
    played(watched.url)
