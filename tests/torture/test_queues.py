"""Torture of serial queues: no job lost, in order, one at a time; planted bugs show that it detects
them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.testing.faults import dice
from holdfast.testing.torture import Outcome
from holdfast.testing.torture.queues import Options, run
from tests.ahead import Ahead
from tests.mutants.failure import NOTES, Failure, chosen, judge, noted
from tests.queue_stores import WITH_QUEUES, Place, durable
from tests.torture.scale import FULL

__all__ = ["durable"]

#: The full run: a worker is killed every second.
LARGE = Options(
    groups=1000,
    jobs=100_000,
    processes=8,
    batch=500,
    body=0.0,
    interval=0.05,
    ttl=3.0,
    every=1.0,
    strikes=("kill",),
    limit=3000.0,
)
#: The full run on a store in which queues aren't deep and a majority writes each step.
SHALLOW = LARGE._replace(groups=500, jobs=10_000, batch=200, every=2.0)
SMALL = Options(
    groups=20,
    jobs=240,
    processes=3,
    ttl=0.6,
    body=0.01,
    every=0.5,
    strikes=("kill", "stop"),
    most=4,
)
FEW = Options(groups=6, jobs=60, processes=2, putters=1, ttl=0.5, every=0.3, limit=20.0)

embedded = pytest.mark.skipif("sqlite" not in WITH_QUEUES, reason="it has no queues")
on_all = pytest.mark.skipif(not FULL, reason="HOLDFAST_TORTURE=full; the refunds run on each store")


def _large(place: Place) -> Options:
    return SHALLOW if place.url.startswith("zookeeper") else LARGE


def _run(options: Options, place: Place | None = None) -> Outcome:
    options = options._replace(seed=dice("queues").randrange(1 << 32))
    if place is None:
        outcome = run(options)
    else:
        outcome = run(options._replace(store=place.url), place.dies)
    print(outcome)
    return outcome


@embedded
def test_workers_with_injected_faults_break_no_promise() -> None:
    outcome = _run(SMALL)
    outcome.demand()
    figures = outcome.verdict.figures
    assert figures["acked"] + figures["acked or not"] >= figures["accepted"] >= SMALL.jobs
    assert outcome.strikes["kill"] > 0


@embedded
def test_without_a_crash_nothing_comes_twice_unasked() -> None:
    asked = 0
    for _ in range(4):  # in one run by itself it may be that no job is tried again
        outcome = _run(FEW._replace(every=0.0, ttl=10.0))
        outcome.demand()
        figures = outcome.verdict.figures
        assert figures["again"] == figures["asked for again"]
        assert (figures["lost deliveries"], figures["acked or not"]) == (0, 0)
        asked += figures["asked for again"]
        if asked:
            break
    assert asked > 0


@embedded
def test_a_run_that_is_given_up_has_lost_nothing() -> None:
    outcome = _run(FEW._replace(groups=2, body=0.3, every=0.0, ttl=10.0, limit=1.0))
    assert [one for one in outcome.troubles if one.startswith("not done after")]
    outcome.verdict.demand()
    assert outcome.verdict.figures["still there"] > 0


@on_all
def test_a_hundred_thousand_jobs_without_a_crash(durable: Place) -> None:
    outcome = _run(_large(durable)._replace(every=0.0, ttl=30.0), Place(durable.url))
    outcome.demand()
    assert outcome.verdict.figures["again"] == outcome.verdict.figures["asked for again"]


@on_all
def test_a_hundred_thousand_jobs_under_kills_and_a_restart(durable: Place) -> None:
    outcome = _run(_large(durable), durable)
    # An ack on PostgreSQL doesn't wait for the disk; the next take of its worker does. So a crash
    # can repeat the last job of each worker (docs/stores/postgres.md).
    repeated = LARGE.processes if durable.url.startswith("postgresql") else 0
    outcome.demand({"once"} if repeated else ())
    assert outcome.verdict.counts.get("once", 0) <= repeated
    assert outcome.strikes["kill"] > 5
    assert outcome.strikes.get("restart", 0) == (durable.dies is not None)


# -- the run detects planted bugs ----------------------------------------------------------------

#: For each module with a planted bug: the options that reveal it, and the promise that it breaks.
BUGS = {
    "lease_believed": (FEW._replace(groups=2, jobs=6, body=0.2, ttl=0.3, every=0), "one at a time"),
    "no_interval": (FEW._replace(jobs=18, interval=0.2, every=0), "interval"),
    "acked_early": (
        FEW._replace(jobs=24, body=0.1, every=0.7, strikes=("kill",), most=3),
        "nothing lost",
    ),
    "put_backwards": (FEW._replace(jobs=30, every=0), "order"),
}
TABLE = "queue torture"


@pytest.mark.usual(0)
@pytest.mark.parametrize("bug", chosen(TABLE, BUGS, BUGS))
@embedded
def test_a_planted_bug_is_found_out(bug: str, found_out: Ahead[str, dict[str, int]]) -> None:
    promise = BUGS[bug][1]
    assert promise in found_out[bug]
    judge(TABLE, bug, Failure("broken promise", promise), noted())


@pytest.fixture(scope="module")
def found_out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ahead[str, dict[str, int]]]:
    """The broken promises for each bug; the runs overlap, because they mostly wait."""

    def hunt(bug: str) -> dict[str, int]:
        options, promise = BUGS[bug]
        for _ in range(5):  # if no fault has come at the right moment
            counts = _run(options._replace(first=f"tests.torture.{bug}")).verdict.counts
            if promise in counts:
                break
        return counts

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NOTES, str(tmp_path_factory.mktemp("notes") / "notes"))
        with Ahead(hunt, [*BUGS], at_once=4) as ahead:
            yield ahead
