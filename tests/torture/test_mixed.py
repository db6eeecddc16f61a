"""The previous release and this tree on one store: no promise is broken while workers are upgraded
one by one, and rolled back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.cli import main
from holdfast.testing.faults import dice
from holdfast.testing.promise import PromiseBroken
from holdfast.testing.torture import Outcome
from holdfast.testing.torture.guards import Options as Guards
from holdfast.testing.torture.locks import Options as Locks
from holdfast.testing.torture.queues import Options as Queues
from holdfast.url import find
from tests.queue_stores import SESSION_S
from tests.shared_stores import STORES, url_of
from tests.torture import previous
from tests.torture.mixed import BACK, UPGRADE, Mixed, MixedGuards, MixedLocks, MixedQueues
from tests.torture.scale import FULL, IGNORED, times

#: With ``HOLDFAST_TORTURE=full``: five minutes for each store.
SECONDS = times(300, 3)
PROCESSES = times(6, 2)
#: All stores that processes can share.
SHARED = [one for one in STORES if one != "memory"]
WITH_GUARDS = [one for one in SHARED if find(f"{one}://")[0].CAPABILITIES.guards]


def _url(scheme: str, request: pytest.FixtureRequest) -> str:
    url = url_of(scheme, request, "")
    if scheme in ("postgresql", "mysql"):
        # The previous release first; its workers need no time for that in the run
        command = [sys.executable, "-m", "holdfast", "schema", "--apply", "--url", url]
        subprocess.run(command, check=True, env={**os.environ, **previous.environment()})
        assert main(command[3:]) == 0
    return f"{url}?session={SESSION_S:g}" if scheme == "zookeeper" else url


def _demand(outcome: Outcome) -> None:
    print(outcome)
    outcome.demand(IGNORED)
    assert outcome.strikes[UPGRADE] == outcome.strikes[BACK] == PROCESSES


@pytest.mark.usual(len(SHARED))
@pytest.mark.parametrize("scheme", SHARED)
def test_locks_of_two_releases_exclude_each_other(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = dice("mixed locks").randrange(1 << 32)
    url = _url(scheme, request)
    options = Locks(url, SECONDS, seed, PROCESSES, 1, 1.0, str(tmp_path), every=0.4, long=0.2)
    outcome = MixedLocks(options, tmp_path, None, ()).go(SECONDS)
    _demand(outcome)
    assert outcome.verdict.figures["held"] > (SECONDS if FULL else 0)


#: For each store, a change after which this tree no longer sees the claims of the previous release.
APART = {
    "sqlite": (
        "stores/sqlite/blocking/place.py",
        "    return url.path\n",
        "    return url.path + '2'\n",
    ),
    "redis": ("stores/redis/keys.py", "BUCKETS = 128", "BUCKETS = 127"),
    "postgresql": ("stores/postgres/config.py", '_SCHEMA = "holdfast"', '_SCHEMA = "apart"'),
    "zookeeper": ("stores/zookeeper/names.py", "0123456789_.-:@=+,~", "0123456789_.-@=+,~"),
}


@pytest.mark.usual(0)
@pytest.mark.parametrize("scheme", APART)
def test_a_tree_that_does_not_see_the_claims_of_the_previous_release_is_found_out(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a copy of this tree with an incompatible change
    copy, (file, old, new) = tmp_path / "src" / "holdfast", APART[scheme]
    shutil.copytree(holdfast.__path__[0], copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / file).read_text()
    assert text.count(old) == 1
    (copy / file).write_text(text.replace(old, new))
    monkeypatch.setattr(Mixed, "tree", previous.environment_of(tmp_path / "src"))
    # When its workers run next to those of the previous release
    url = _url(scheme, request)
    for number in range(5):  # if a run has no two holders at one moment
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        options = Locks(url, 4.0, number, 4, 1, 1.0, str(folder), every=1.0)
        outcome = MixedLocks(options, folder, None, ()).go(options.seconds)
        print(outcome)
        if "exclusion" in outcome.verdict.counts:
            break
    # Then the judge finds two holders
    with pytest.raises(PromiseBroken, match="exclusion"):
        outcome.demand()


@pytest.mark.usual(2)
@pytest.mark.parametrize("scheme", SHARED)
def test_a_queue_of_two_releases_loses_no_job(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = dice("mixed queues").randrange(1 << 32)
    options = Queues(
        store=_url(scheme, request),
        seed=seed,
        jobs=40 * SECONDS,
        processes=PROCESSES,
        every=2.0,
        limit=20.0 * SECONDS + 60,
        folder=str(tmp_path),
    )
    _demand(MixedQueues(options, tmp_path, None).go(options.limit))


@pytest.mark.usual(2)
@pytest.mark.parametrize("scheme", WITH_GUARDS)
def test_no_value_is_older_than_an_invalidation_of_the_other_release(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = dice("mixed guards").randrange(1 << 32)
    url = _url(scheme, request)
    options = Guards(url, seed, SECONDS, PROCESSES, str(tmp_path), every=1.0)
    _demand(MixedGuards(options, tmp_path, None).go(SECONDS))
