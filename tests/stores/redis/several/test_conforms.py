"""The conformance kit with several servers.

The whole kit once ran in a cluster and behind sentinels (see the page of this store). Here a part
of it runs, spread over all cases: some runs of each primitive on each face.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.testing.conformance import PRIMITIVES, Run, runs
from holdfast.testing.faces import FACES
from tests.ahead import Ahead
from tests.servers.cluster import Cluster
from tests.servers.sentinels import Watched
from tests.torture.scale import times

AT_ONCE = 4
#: The number of runs of each primitive on each face, spread over the kit.
EACH = times(12, 4)
#: Cases that differ in a cluster. An id is recognised only in its group, and grouped and ungrouped
#: jobs take turns only within a shard: see `test_queues.py` and the page of this store. The last
#: case loses a reply above the code that repeats a request at the same shard. So the repeated take
#: goes to another shard, and one job stays delivered.
OTHERWISE = frozenset(
    {
        "a_duplicate_is_dropped_and_says_so",
        "neither_lane_starves_the_other",
        "what_a_take_gives_back_comes_behind_those_that_were_due",
    }
)


def chosen(but: Collection[str] = ()) -> list[Run]:
    """Return some runs of each primitive on each face, without the cases named in `but`."""
    found: list[Run] = []
    everything = [run for run in runs("redis") if not run.case.alone and run.case.name not in but]
    for primitive in PRIMITIVES:
        for face in FACES:
            mine = [run for run in everything if (run.primitive, run.face) == (primitive, face)]
            found += mine[:: max(1, len(mine) // EACH)][:EACH]
    return found


def played(url: str, but: Collection[str] = ()) -> None:
    """Run them, `AT_ONCE` in parallel; raise the error of the first run that failed."""
    mine = chosen(but)
    with Ahead(lambda run: run.on(url), mine, AT_ONCE) as ahead:
        for run in mine:
            try:
                ahead[run]
            except BaseException as wrong:
                wrong.add_note(f"in the run {run}")
                raise


def test_every_primitive_is_asked_on_both_faces() -> None:
    assert {(run.primitive, run.face) for run in chosen()} == {
        (primitive, face) for primitive in PRIMITIVES for face in FACES
    }


def test_the_kit_holds_in_a_cluster(cluster: Cluster) -> None:
    played(cluster.url, OTHERWISE)


def test_the_kit_holds_behind_sentinels(watched: Watched) -> None:
    played(watched.url)
