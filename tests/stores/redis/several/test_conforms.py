"""The conformance kit with several servers.

The whole kit once ran in a cluster and behind sentinels (see the page of this store). Here a part
of it runs, spread over all cases: some runs of each primitive on each face.
"""

from __future__ import annotations

from tests.conformance.some import play
from tests.servers.cluster import Cluster
from tests.servers.sentinels import Watched
from tests.torture.scale import times

#: The number of runs of each primitive on each face, spread over the kit.
EACH = times(12, 4)
#: Cases that differ in a cluster. An id is recognised only in its group, and grouped and ungrouped
#: jobs take turns only within a shard: see `test_queues.py` and the page of this store. The last
#: case loses a reply above the code that repeats a request at the same shard. So the repeated take
#: goes to another shard, and one job stays delivered.
OTHERWISE = frozenset(
    {
        "a_duplicate_is_dropped_and_reported",
        "neither_groups_nor_ungrouped_jobs_starve",
        "a_job_that_a_take_releases_comes_after_the_jobs_that_were_due",
    }
)
#: Cases of queues whose jobs, rates or dead letters are in several shards.
SHARDED = frozenset(
    {
        "a_rate_holds_for_the_whole_queue",
        "what_dies_again_while_dead_letters_are_revived_is_not_revived_again",
    }
)


def test_the_kit_holds_in_a_cluster(cluster: Cluster) -> None:
    play("redis", cluster.url, EACH, OTHERWISE, SHARDED)


def test_the_kit_holds_behind_sentinels(watched: Watched) -> None:
    play("redis", watched.url, EACH)
